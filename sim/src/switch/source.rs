//! Source routing: the path chosen by the sender names the uplink at every tier (PRO, section V);
//! see [`Uplinks`].

use super::ecmp;
use super::offer::Offer;
use super::port_policy::{PortPolicy, PortRng};
use crate::packet::Packet;
use crate::topology::{PortId, Topology, Uplinks};

#[derive(Clone, Debug)]
pub(crate) struct SourceRouting {
    uplinks: Uplinks,
}

impl SourceRouting {
    pub(crate) fn new(topology: &Topology, switch: u32) -> Self {
        SourceRouting { uplinks: Uplinks::new(topology, switch) }
    }

    /// Returns the uplink that the path names. `None`: it is not on a route.
    pub(crate) fn named(&self, packet: &Packet, ports: &[PortId]) -> Option<PortId> {
        let index = self.uplinks.index_of_route(packet.path.get().into())?;
        let named = self.uplinks.ports[index];
        // As long as nothing has failed, all uplinks are offered in their order.
        let is_offered = ports.get(index) == Some(&named) || ports.contains(&named);
        is_offered.then_some(named)
    }
}

impl PortPolicy for SourceRouting {
    /// Chooses the named uplink. If it is not on a route, the choice is another one, always the
    /// same.
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        self.named(offer.packet, offer.ports).unwrap_or_else(|| {
            let path = u64::from(offer.packet.path.get());
            offer.ports[(ecmp::mix(path) % offer.ports.len() as u64) as usize]
        })
    }

    fn foresee(&self, packet: &Packet, ports: &[PortId]) -> Option<PortId> {
        self.named(packet, ports)
    }
}

/// Source routing; where the named route does not exist, another policy chooses.
#[derive(Debug)]
pub(crate) struct SourceOr<P>(pub(crate) SourceRouting, pub(crate) P);

impl<P: PortPolicy> PortPolicy for SourceOr<P> {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        self.0.named(offer.packet, offer.ports).unwrap_or_else(|| self.1.choose(offer, rng))
    }

    fn foresee(&self, packet: &Packet, ports: &[PortId]) -> Option<PortId> {
        self.0.named(packet, ports)
    }

    fn on_routes_changed(&mut self) {
        self.1.on_routes_changed();
    }
}
