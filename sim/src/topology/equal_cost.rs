//! The numbering of the routes between two edge switches.
//!
//! On the wire the low 6 bits of a PathID are the ToR's egress and the high 6 bits the
//! aggregation's (PRO, section V). Here routes are numbered densely: R routes have the numbers 0 to
//! R - 1. With U uplinks at the edge, route r takes uplink r mod U at the edge and uplink r / U at
//! the aggregation.

use super::{Node, PortId, Tier, Topology};

/// The number of routes between interfaces. All switches of a tier are presumed to have as many
/// uplinks as the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualCostRoutes {
    edge_uplinks: u32,
    agg_uplinks: u32,
}

impl EqualCostRoutes {
    /// Counts the routes of a fabric.
    pub fn new(topology: &Topology) -> EqualCostRoutes {
        let uplinks = |tier: Tier| {
            let first = topology.switches.iter().position(|switch| switch.tier == tier);
            let count = first.map_or(0, |switch| topology.uplinks(switch as u32).count());
            count.max(1) as u32
        };
        EqualCostRoutes { edge_uplinks: uplinks(Tier::Edge), agg_uplinks: uplinks(Tier::Agg) }
    }

    /// Returns the number of routes between two interfaces.
    pub fn between(self, topology: &Topology, a: u32, b: u32) -> u32 {
        match topology.meeting_tier(a, b) {
            Tier::Host | Tier::Edge => 1,
            Tier::Agg => self.edge_uplinks,
            Tier::Core => self.most(),
        }
    }

    /// Returns the maximum number of routes between two interfaces.
    pub fn most(self) -> u32 {
        self.edge_uplinks * self.agg_uplinks
    }
}

/// The uplinks of a switch, by the routes that take them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uplinks {
    /// The uplinks in the order of the switch's cables.
    pub ports: Vec<PortId>,
    /// The divisor of a route's number at this switch.
    pub(crate) divisor: u32,
}

impl Uplinks {
    /// Creates the uplinks of a switch.
    pub fn new(topology: &Topology, switch: u32) -> Uplinks {
        let divisor = match topology.switches[switch as usize].tier {
            Tier::Agg => EqualCostRoutes::new(topology).edge_uplinks,
            _ => 1,
        };
        Uplinks { ports: topology.uplinks(switch).collect(), divisor }
    }

    /// Returns the uplink that a route takes. `None`: the switch has no uplinks.
    pub fn of_route(&self, route: u32) -> Option<PortId> {
        self.index_of_route(route).map(|index| self.ports[index])
    }

    /// Returns the index in `ports` of the uplink that a route takes. `None`: the switch has no
    /// uplinks.
    #[inline]
    pub(crate) fn index_of_route(&self, route: u32) -> Option<usize> {
        let quotient = if self.divisor == 1 { route } else { route / self.divisor };
        (quotient as usize).checked_rem(self.ports.len())
    }
}

impl Topology {
    /// Returns the ports of a switch that lead away from the hosts, in the order of its cables.
    pub fn uplinks(&self, switch: u32) -> impl Iterator<Item = PortId> + '_ {
        self.ports_of(Node::Switch(switch)).filter(|port| port.is_up())
    }

    /// Returns all ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..2 * self.cables.len() as u32).map(PortId)
    }
}
