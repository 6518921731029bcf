//! Prefetching of ends that are needed soon.

use super::Hosts;
use super::memory::message_at;
use crate::fabric::Fabric;
use crate::packet::{EndId, Packet};
use crate::prefetch;

impl Hosts {
    /// Returns the end that an interface will ask next for a packet.
    #[inline]
    pub(crate) fn next_of(&self, nic: u32) -> Option<EndId> {
        self.nics[nic as usize].next()
    }

    /// Requests an interface.
    #[inline(always)]
    pub(crate) fn expect_interface(&self, nic: u32) {
        prefetch::element(&self.nics, nic as usize);
    }

    /// Requests the path set of an acknowledged end, or the account of a message. Its body and its
    /// end have been requested.
    #[inline]
    pub(crate) fn expect_sets(&self, frame: &Packet, fabric: &Fabric) {
        match fabric.bodies.data(frame) {
            Some((header, _)) => self.deliveries.expect(message_at(header.address)),
            None => self.sets.expect(self.ends[frame.end as usize].paths),
        }
    }

    /// Requests the state of the path that an acknowledgement is for. The set has been requested.
    #[inline]
    pub(crate) fn expect_path(&self, frame: &Packet) {
        let set = self.sets.get(self.ends[frame.end as usize].paths);
        set.place_of(frame.path, prefetch::bytes);
    }

    /// Requests a part of an end. Each step reads what the step before has requested.
    #[inline(always)]
    pub(crate) fn expect(&self, id: EndId, step: u8) {
        let end = &self.ends[id.index()];
        if step == 0 {
            return prefetch::value(end);
        }
        let Some(protocol) = end.in_use() else { return };
        match step {
            1 => prefetch::value(protocol),
            2 => {
                self.sets.expect(end.paths);
                protocol.endpoint.state_of(protocol.slot, 0, prefetch::bytes);
            }
            3 => protocol.endpoint.state_of(protocol.slot, 1, prefetch::bytes),
            _ => protocol.endpoint.state_of(protocol.slot, 2, prefetch::bytes),
        }
    }
}
