//! Priority flow control (IEEE 802.1Qbb): a switch pauses the links that fill its buffer.

use crate::events::{Event, Events};
use crate::packet::Packet;
use crate::topology::PortId;

use super::{Buffer, Fabric};

impl Fabric {
    /// Charges a packet that has arrived to the account of its incoming link.
    #[inline]
    pub(crate) fn hold(&mut self, switch: u32, packet: &Packet, events: &mut Events) {
        let Some(pause) = self.config.pause else { return };
        if !packet.is_data() || packet.ingress == u32::MAX {
            return;
        }
        let ingress = PortId(packet.ingress);
        let bytes = u64::from(packet.bytes);
        let limit = self.pause_limit(switch, pause.stop);
        let it = &mut self.ports[ingress.index()];
        it.held += bytes;
        if it.held > limit && !it.pause_sent {
            it.pause_sent = true;
            self.ledger.pauses += 1;
            events.after(it.delay, Event::Pause { port: ingress, stop: true });
        }
    }

    /// Credits a packet that has left the switch to the account of its incoming link.
    #[inline]
    pub(crate) fn release(&mut self, switch: u32, gone: &Packet, events: &mut Events) {
        let Some(pause) = self.config.pause else { return };
        if !gone.is_data() || gone.came_by == u32::MAX {
            return;
        }
        let ingress = PortId(gone.came_by);
        let limit = self.pause_limit(switch, pause.stop).min(pause.go);
        let it = &mut self.ports[ingress.index()];
        it.held -= u64::from(gone.bytes);
        if it.pause_sent && it.held <= limit {
            it.pause_sent = false;
            events.after(it.delay, Event::Pause { port: ingress, stop: false });
        }
    }

    /// Handles a pause frame at the sending end of a link.
    pub fn on_pause(&mut self, port: PortId, stop: bool, events: &mut Events) {
        self.ports[port.index()].paused = stop;
        if !stop {
            self.start(port, events);
        }
    }

    fn pause_limit(&self, switch: u32, stop: u64) -> u64 {
        match self.config.buffer {
            Buffer::PerPort { .. } => stop,
            Buffer::Shared { bytes, alpha } => {
                let free = bytes.saturating_sub(self.switches[switch as usize].used);
                stop.min((alpha * free as f64) as u64)
            }
        }
    }
}
