//! Buffer admission: room for a packet, trimming and drops.

use rand::RngExt;

use crate::events::{Event, Events};
use crate::packet::{Class, Packet};
use crate::topology::{Node, PortId};

use super::{Buffer, Fabric, Loss, When};

impl Fabric {
    /// Queues a packet at an output port of a switch or an interface. An interface always has room.
    pub fn join(&mut self, port: PortId, packet: &Packet, events: &mut Events<Event>) {
        let mut cut = None;
        if let Node::Switch(switch) = self.ports[port.index()].from {
            if !self.has_room(switch, port, packet) {
                let Some(made) = self.make_room(port, packet) else {
                    self.drop_packet(*packet, Loss::NoRoom);
                    return;
                };
                cut = Some(made);
            }
            let packet = cut.as_ref().unwrap_or(packet);
            self.switches[switch as usize].used += u64::from(packet.bytes);
            self.hold(switch, packet, events);
        }
        let packet = cut.as_ref().unwrap_or(packet);
        let it = &mut self.ports[port.index()];
        let mut marked = packet.marked;
        if let Some(marking) = self.config.marking.filter(|marking| marking.when == When::Joining)
            && packet.is_data()
            && !marked
        {
            marked = marking.marks(it.bytes, it.rate, &mut self.rng);
            it.marked += u64::from(marked);
        }
        if it.admit(packet, self.config.control_first) {
            self.send(port, packet, marked, events);
        } else {
            it.queue(Packet { marked, ..*packet }, self.config.control_first, &mut self.waiting);
        }
    }

    /// Releases the buffer of the packet that the port has finished sending.
    pub(crate) fn leave(&mut self, port: PortId, events: &mut Events<Event>) {
        let it = &mut self.ports[port.index()];
        let gone = it.sending.take().expect("a port that has sent was sending");
        it.bytes -= u64::from(gone.bytes);
        it.packets -= 1;
        if let Node::Switch(switch) = it.from {
            self.switches[switch as usize].used -= u64::from(gone.bytes);
            self.release(switch, gone, events);
        }
    }

    fn has_room(&self, switch: u32, port: PortId, packet: &Packet) -> bool {
        let bytes = u64::from(packet.bytes);
        if self.config.trim && (packet.class == Class::Control || packet.trimmed) {
            return true; // a trimmed header always has room, because it reports the loss
        }
        let queued = self.ports[port.index()].bytes;
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
