//! Priority flow control (IEEE 802.1Qbb): a switch pauses the links that fill its buffer.
//!
//! The bytes that have arrived by a link count, not those that wait in a queue. Many links may feed
//! one queue, and it would be full before any of them is paused.

use crate::events::{Event, Events};
use crate::packet::Packet;
use crate::topology::{Node, PortId};

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
        let limit = self.pause_limit(switch, ingress, pause.stop);
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
        let limit = self.pause_limit(switch, ingress, pause.stop).min(pause.go);
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

    /// Returns whether the buffer of a switch that pauses its neighbours has room. Only data
    /// counts, because pause frames stop nothing else.
    pub(super) fn has_lossless_room(&self, switch: u32, packet: &Packet) -> bool {
        let bytes = u64::from(packet.bytes);
        match self.config.buffer {
            _ if !packet.is_data() || packet.ingress == u32::MAX => true,
            Buffer::PerPort { bytes: room } => {
                self.ports[packet.ingress as usize].held + bytes <= room
            }
            Buffer::Shared { bytes: room, .. } => {
                self.switches[switch as usize].used + bytes <= room
            }
        }
    }

    fn pause_limit(&self, switch: u32, ingress: PortId, stop: u64) -> u64 {
        match self.config.buffer {
            Buffer::PerPort { bytes } => {
                stop.min(bytes.saturating_sub(self.ports[ingress.index()].headroom))
            }
            Buffer::Shared { bytes, alpha } => {
                let it = &self.switches[switch as usize];
                let free = bytes.saturating_sub(it.headroom).saturating_sub(it.used);
                stop.min((alpha * free as f64) as u64)
            }
        }
    }

    /// Computes the headroom of all links and switches, again after a link's speed has changed.
    ///
    /// Headroom is what may arrive by a link whose bytes are at their limit. That is the frame that
    /// exceeds the limit, what the link holds, and what is sent until the pause frame has crossed
    /// it. The frame that is being sent at that time ends. A link that has become slower still
    /// holds what it has sent before.
    pub(super) fn keep_headroom(&mut self) {
        if self.config.pause.is_none() {
            return;
        }
        let frame = u64::from(self.config.frames.header) + u64::from(self.config.frames.payload);
        // One more frame: the one that exceeds the buffer without headroom.
        self.switches.iter_mut().for_each(|switch| switch.headroom = frame);
        for (port, link) in self.ports.iter_mut().zip(&self.links) {
            if let Node::Switch(switch) = link.to {
                let bytes = 2 * port.rate.bytes_in(port.delay) + 2 * frame;
                port.headroom = bytes.max(port.headroom);
                self.switches[switch as usize].headroom += port.headroom;
            }
        }
    }
}
