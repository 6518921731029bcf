//! Priority flow control (IEEE 802.1Qbb): a switch stops the links that have too much in it.

use crate::events::{Event, Events};
use crate::packet::Packet;
use crate::port::Sending;
use crate::topology::PortId;

use super::{Buffer, Fabric};

impl Fabric {
    /// A packet occupies the switch that it has come to.
    pub(crate) fn hold(&mut self, switch: u32, packet: &Packet, events: &mut Events<Event>) {
        let Some(pause) = self.config.pause else { return };
        if !packet.is_data() || packet.ingress == u32::MAX {
            return;
        }
        let ingress = PortId(packet.ingress);
        let bytes = u64::from(packet.bytes);
        let limit = self.pause_limit(switch, pause.stop);
        let it = &mut self.ports[ingress.index()];
        it.held += bytes;
        if it.held > limit && !it.told_to_stop {
            it.told_to_stop = true;
            self.ledger.pauses += 1;
            events.after(it.delay, Event::Pause { port: ingress, stop: true });
        }
    }

    /// It has left the switch.
    pub(crate) fn release(&mut self, switch: u32, gone: Sending, events: &mut Events<Event>) {
        let Some(pause) = self.config.pause else { return };
        if !gone.is_data || gone.ingress == u32::MAX {
            return;
        }
        let ingress = PortId(gone.ingress);
        let limit = self.pause_limit(switch, pause.stop).min(pause.go);
        let it = &mut self.ports[ingress.index()];
        it.held -= u64::from(gone.bytes);
        if it.told_to_stop && it.held <= limit {
            it.told_to_stop = false;
            events.after(it.delay, Event::Pause { port: ingress, stop: false });
        }
    }

    /// A pause frame has come back to the sending end of a link.
    pub fn on_pause(&mut self, port: PortId, stop: bool, events: &mut Events<Event>) {
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
