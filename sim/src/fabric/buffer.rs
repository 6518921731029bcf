//! Buffer admission: room for a packet, trimming and drops.

use rand::RngExt;

use crate::events::Events;
use crate::packet::{Class, Packet};
use crate::topology::{Node, PortId};

use super::{Buffer, Fabric, Loss, When};

impl Fabric {
    /// Queues a packet at an output port of a switch or an interface. An interface always has room.
    #[inline(always)]
    pub(super) fn join_at(&mut self, port: PortId, packet: &Packet, events: &mut Events) {
        let it = &self.ports[port.index()];
        let (from, queued) = (it.from, it.bytes);
        match from {
            Node::Switch(switch) if !self.has_room(switch, queued, packet) => {
                self.join_full(port, packet, events);
            }
            from => self.admit((port, from), packet, events),
        }
    }

    /// Trims or drops a packet that found no room.
    #[cold]
    #[inline(never)]
    fn join_full(&mut self, port: PortId, packet: &Packet, events: &mut Events) {
        match self.make_room(port, packet) {
            Some(cut) => self.admit((port, self.ports[port.index()].from), &cut, events),
            None => self.drop_packet(*packet, Loss::NoRoom),
        }
    }

    /// Queues a packet for which there is room. `from`: the node of the port.
    #[inline(always)]
    fn admit(&mut self, (port, from): (PortId, Node), packet: &Packet, events: &mut Events) {
        if let Node::Switch(switch) = from {
            self.switches[switch as usize].used += u64::from(packet.bytes);
            if self.config.pause.is_some() {
                self.hold(switch, packet, events);
            }
        }
        let it = &mut self.ports[port.index()];
        let mut marked = packet.marked;
        if let Some(marking) = &self.config.marking
            && marking.when == When::Joining
            && packet.is_data()
            && !marked
        {
            marked = marking.marks(it.bytes, it.rate, &mut self.rng);
            it.marked += u64::from(marked);
        }
        if it.admit(packet, self.config.control_first) {
            self.send(port, packet, marked, events);
        } else {
            it.queue(packet, self.config.control_first, &mut self.waiting).marked = marked;
        }
    }

    /// Releases the buffer of a packet that its port has finished sending. Returns the node that
    /// sends.
    #[inline(always)]
    pub(super) fn leave(&mut self, gone: &Packet, events: &mut Events) -> Node {
        let bytes = u64::from(gone.bytes);
        let it = &mut self.ports[gone.ingress as usize];
        it.is_sending = false;
        it.bytes -= bytes;
        it.packets -= 1;
        let from = it.from;
        if let Node::Switch(switch) = from {
            self.switches[switch as usize].used -= bytes;
            if self.config.pause.is_some() {
                self.release(switch, gone, events);
            }
        }
        from
    }

    /// Returns whether a queue of `queued` bytes has room for a packet.
    #[inline(always)]
    fn has_room(&self, switch: u32, queued: u64, packet: &Packet) -> bool {
        let bytes = u64::from(packet.bytes);
        if self.config.trim && (packet.class == Class::Control || packet.trimmed) {
            return true; // a trimmed header always has room, because it reports the loss
        }
        if self.config.pause.is_some() {
            return self.has_lossless_room(switch, packet);
        }
        match self.config.buffer {
            Buffer::PerPort { bytes: room } => queued + bytes <= room,
            Buffer::Shared { bytes: room, alpha } => {
                let used = self.switches[switch as usize].used;
                let free = room.saturating_sub(used);
                used + bytes <= room && queued as f64 <= alpha * free as f64
            }
        }
    }

    /// Trims a packet to its header, for want of room: the arriving one or, by a coin, the last one
    /// in the queue, whose place the arriving one then takes. Returns the trimmed packet, which
    /// joins the queue. `None`: trimming is off.
    fn make_room(&mut self, port: PortId, packet: &Packet) -> Option<Packet> {
        if !self.config.trim {
            return None;
        }
        self.ledger.trimmed += 1;
        let mut cut = *packet;
        let last = self.ports[port.index()].last_data(&mut self.waiting);
        if let Some(last) = last.filter(|last| last.bytes == packet.bytes)
            && self.rng.random::<bool>()
        {
            std::mem::swap(last, &mut cut);
        }
        Some(Packet { trimmed: true, bytes: self.config.frames.ack, ..cut })
    }
}
