//! How the routes between two edge switches are numbered.
//!
//! On the wire the low 6 bits of a PathID are the ToR's egress and the high 6 the aggregation's (PRO,
//! section V). Routes are numbered densely here, so that R routes are 0 to R - 1: route r takes uplink r mod U at
//! the edge, which has U, and r / U at the aggregation.

use super::{Node, PortId, Tier, Topology};

/// How many routes there are. All switches of a tier have as many uplinks as the first, is presumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualCostRoutes {
    edge_uplinks: u32,
    agg_uplinks: u32,
}

impl EqualCostRoutes {
    /// Those of a fabric.
    pub fn new(topology: &Topology) -> EqualCostRoutes {
        let uplinks = |tier: Tier| {
            let first = topology.switches.iter().position(|switch| switch.tier == tier);
            let count = first.map_or(0, |switch| topology.uplinks(switch as u32).count());
            count.max(1) as u32
        };
        EqualCostRoutes { edge_uplinks: uplinks(Tier::Edge), agg_uplinks: uplinks(Tier::Agg) }
    }

    /// Between two interfaces.
    pub fn between(self, topology: &Topology, a: u32, b: u32) -> u32 {
        match topology.meeting_tier(a, b) {
            Tier::Host | Tier::Edge => 1,
            Tier::Agg => self.edge_uplinks,
            Tier::Core => self.most(),
        }
    }

    /// Between any two.
    pub fn most(self) -> u32 {
        self.edge_uplinks * self.agg_uplinks
    }
}

/// A switch's uplinks, by the routes that take them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uplinks {
    /// In the order of the switch's cables.
    pub ports: Vec<PortId>,
    /// What a route's number is divided by here.
    pub(crate) divisor: u32,
}

impl Uplinks {
    /// Those of a switch.
    pub fn new(topology: &Topology, switch: u32) -> Uplinks {
        let divisor = match topology.switches[switch as usize].tier {
            Tier::Agg => EqualCostRoutes::new(topology).edge_uplinks,
            _ => 1,
        };
        Uplinks { ports: topology.uplinks(switch).collect(), divisor }
    }

    /// The one that a route takes; `None`: the switch has none.
    pub fn of_route(&self, route: u32) -> Option<PortId> {
        let at = ((route / self.divisor) as usize).checked_rem(self.ports.len())?;
        Some(self.ports[at])
    }
}

impl Topology {
    /// A switch's ports that lead away from the hosts, in the order of its cables.
    pub fn uplinks(&self, switch: u32) -> impl Iterator<Item = PortId> + '_ {
        self.ports_of(Node::Switch(switch)).filter(|port| port.is_up())
    }

    /// All ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..2 * self.cables.len() as u32).map(PortId)
    }
}
