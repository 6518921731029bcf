//! Whether there is room for a packet, and what happens if not.

use rand::RngExt;

use crate::events::Events;
use crate::packet::{Class, Packet};
use crate::simulation::Event;
use crate::topology::{Node, PortId};

use super::{Buffer, Fabric, Loss, When};

impl Fabric {
    /// A packet joins an output queue of a switch, or of an interface, which always has room.
    pub fn join(&mut self, port: PortId, mut packet: Packet, events: &mut Events<Event>) {
        if let Node::Switch(switch) = self.ports[port.index()].from {
            if !self.has_room(switch, port, &packet) && !self.make_room(port, &mut packet) {
                self.drop_packet(packet, Loss::NoRoom);
                return;
            }
            self.switches[switch as usize].used += u64::from(packet.bytes);
            self.hold(switch, &packet, events);
        }
        let it = &mut self.ports[port.index()];
        if let Some(marking) = self.config.marking.filter(|marking| marking.when == When::Joining)
            && packet.is_data()
            && !packet.marked
        {
            packet.marked = marking.marks(it.bytes, &mut self.rng);
            it.marked += u64::from(packet.marked);
        }
        it.join(packet, self.config.control_first);
        self.start(port, events);
    }

    /// What is being sent has gone: its room is free.
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
            return true; // what is left of a packet always finds room: it is the sign of its loss
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

    /// Cuts the payload off the arriving packet, or by a coin off the last one in the queue, in whose
    /// place the arriving one then goes. False: that is not done here.
    fn make_room(&mut self, port: PortId, packet: &mut Packet) -> bool {
        if !self.config.trim {
            return false;
        }
        self.ledger.trimmed += 1;
        let last = self.ports[port.index()].last_data();
        if let Some(last) = last.filter(|last| last.bytes == packet.bytes)
            && self.rng.random::<bool>()
        {
            std::mem::swap(last, packet);
        }
        packet.trimmed = true;
        packet.bytes = self.config.frames.ack;
        true
    }
}
