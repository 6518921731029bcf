//! Themis-S: the route of a packet is its PSN plus the base of the flow, modulo the number of
//! routes (Eq. 1).
//!
//! In the paper only edge switches implement it: in three tiers they rewrite the source port so
//! that the hashes above give the intended route. Here the switches of the second tier read the
//! route from the packet, which has the same effect.

use crate::packet::Packet;
use crate::switch::ecmp::{Ecmp, mix};
use crate::switch::offer::Offer;
use crate::switch::port_policy::{PortPolicy, PortRng};
use crate::topology::{EqualCostRoutes, PortId, Topology, Uplinks};

#[derive(Clone, Debug)]
pub(crate) struct Spray {
    routes: EqualCostRoutes,
    uplinks: Uplinks,
    /// The fallback if a route has failed.
    ecmp: Ecmp,
}

impl Spray {
    pub(crate) fn new(topology: &Topology, switch: u32, ecmp: Ecmp) -> Self {
        let (routes, uplinks) = (EqualCostRoutes::new(topology), Uplinks::new(topology, switch));
        Spray { routes, uplinks, ecmp }
    }
}

impl PortPolicy for Spray {
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        // With fewer routes than planned, Themis is off (section 6).
        if offer.ports != self.uplinks.ports {
            return self.ecmp.hashed(offer);
        }
        let packet = offer.packet;
        let count = self.routes.between(offer.topology, packet.src, packet.dst);
        let route = (packet.psn % count + base(packet) % count) % count;
        self.uplinks.of_route(route).unwrap_or(offer.ports[0])
    }
}

/// P_base, on which all switches agree: a hash of the flow.
fn base(packet: &Packet) -> u32 {
    let addresses = u64::from(packet.src) << 32 | u64::from(packet.dst);
    (mix(mix(addresses) ^ u64::from(packet.path.get())) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Class;
    use crate::switch::trial::Trial;

    /// Returns the ports of the first switch for packets with these PSNs to another pod, which 16
    /// routes reach.
    fn chosen(trial: &Trial, psns: std::ops::Range<u32>) -> Vec<PortId> {
        let mut spray = Spray::new(&trial.topology, 0, Ecmp::new(7));
        trial.offer(100, Class::Data, |offer| {
            let choose = |psn| {
                let packet = Packet { psn, ..*offer.packet };
                spray.choose(&Offer { packet: &packet, ..*offer }, &mut PortRng::from_seed(1))
            };
            psns.map(choose).collect()
        })
    }

    #[test]
    fn the_psn_decides_and_all_uplinks_are_used_alike() {
        let trial = Trial::new();
        let ports = chosen(&trial, 0..64);
        assert_eq!(ports[..16], ports[16..32]);
        for uplink in trial.uplinks() {
            assert_eq!(ports.iter().filter(|port| **port == uplink).count(), 16);
        }
    }

    #[test]
    fn a_route_names_an_uplink_at_every_tier() {
        let trial = Trial::new();
        let aggregation = 32;
        let edge = Spray::new(&trial.topology, 0, Ecmp::new(7));
        let agg = Spray::new(&trial.topology, aggregation, Ecmp::new(7));
        assert_eq!((edge.uplinks.divisor, agg.uplinks.divisor), (1, 4));
        assert_eq!((edge.uplinks.ports.len(), agg.uplinks.ports.len()), (4, 4));
        let between = |dst| edge.routes.between(&trial.topology, 0, dst);
        assert_eq!((between(1), between(5), between(100)), (1, 4, 16));
    }

    #[test]
    fn with_a_failed_route_a_flow_keeps_to_one_route() {
        let mut trial = Trial::new();
        trial.cut(trial.uplinks()[2]);
        let ports = chosen(&trial, 0..64);
        assert!(ports.iter().all(|port| *port == ports[0]));
    }
}
