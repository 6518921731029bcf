//! The local devices of a peer's rails: those that have no room for further packets.

use braid_wire::{MAX_RAILS, RailId};

use super::choice::RailSet;

/// The state of the local devices, as the driver reports it.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    held: RailSet,
    refusals: [u32; MAX_RAILS],
}

impl Devices {
    /// Excludes these rails from chunks while another rail is live. Includes all others.
    pub fn hold(&mut self, rails: RailSet) {
        self.held = rails;
    }

    /// Returns the rails of `live` that are not excluded, or all of them if all are excluded.
    pub(super) fn open(&self, live: RailSet) -> RailSet {
        let open: RailSet = live.iter().filter(|rail| !self.held.contains(*rail)).collect();
        if open.is_empty() { live } else { open }
    }

    /// Records that the queues of these rails' devices refused packets to the peer.
    pub fn on_refusal(&mut self, rails: RailSet) {
        for rail in rails.iter() {
            self.refusals[rail.get()] = self.refusals[rail.get()].wrapping_add(1);
        }
    }

    /// Number of calls of [`Devices::on_refusal`] with this rail. It wraps.
    #[inline]
    pub fn refusals(&self, rail: RailId) -> u32 {
        self.refusals[rail.get()]
    }
}
