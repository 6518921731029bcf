//! Source routing: the path that the sender chose names the uplink at every tier (PRO, section V), see
//! [`Uplinks`].

use super::{Offer, ecmp};
use crate::topology::{PortId, Topology, Uplinks};

#[derive(Clone, Debug)]
pub(crate) struct Source {
    uplinks: Uplinks,
}

impl Source {
    pub(crate) fn new(topology: &Topology, switch: u32) -> Self {
        Source { uplinks: Uplinks::new(topology, switch) }
    }

    /// Where the named uplink does not lead on, another one, always the same.
    pub(crate) fn choose(&self, offer: &Offer<'_>) -> PortId {
        self.named(offer).unwrap_or_else(|| {
            let path = u64::from(offer.packet.path.get());
            offer.ports[(ecmp::mix(path) % offer.ports.len() as u64) as usize]
        })
    }

    /// The uplink that the path names; `None`: it does not lead on.
    pub(crate) fn named(&self, offer: &Offer<'_>) -> Option<PortId> {
        let named = self.uplinks.of_route(offer.packet.path.get().into());
        named.filter(|named| offer.ports.contains(named))
    }
}
