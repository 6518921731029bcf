//! Source routing: the path chosen by the sender names the uplink at every tier (PRO, section V);
//! see [`Uplinks`].

use super::ecmp;
use super::offer::Offer;
use crate::topology::{PortId, Topology, Uplinks};

#[derive(Clone, Debug)]
pub(crate) struct SourceRouting {
    uplinks: Uplinks,
}

impl SourceRouting {
    pub(crate) fn new(topology: &Topology, switch: u32) -> Self {
        SourceRouting { uplinks: Uplinks::new(topology, switch) }
    }

    /// Chooses the named uplink. If it is not on a route, the choice is another one, always the
    /// same.
    pub(crate) fn choose(&self, offer: &Offer<'_>) -> PortId {
        self.named(offer).unwrap_or_else(|| {
            let path = u64::from(offer.packet.path.get());
            offer.ports[(ecmp::mix(path) % offer.ports.len() as u64) as usize]
        })
    }

    /// Returns the uplink that the path names. `None`: it is not on a route.
    pub(crate) fn named(&self, offer: &Offer<'_>) -> Option<PortId> {
        let named = self.uplinks.of_route(offer.packet.path.get().into());
        named.filter(|named| offer.ports.contains(named))
    }
}
