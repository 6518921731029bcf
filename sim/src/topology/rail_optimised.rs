//! Rail-optimised fabrics: hosts with several interfaces, each of which has leaves of its own.

use super::error::{TopologyError, at_least_one, product};
use super::{SwitchSpec, Tier, Topology};
use crate::time::{Ps, Rate};

/// A rail-optimised fabric. Interface `r` of every host is wired to a leaf of rail `r`, so hosts
/// reach each other's interfaces of the same rail over one switch. Spines join the rails.
///
/// Interface `r` of host `h` is number `h * rails + r`. Hosts come in segments of `hosts_per_leaf`.
/// The leaf of rail `r` in segment `g` is switch `g * rails + r`, and the spines follow. Ports are
/// ordered as in a [`LeafSpine`](super::LeafSpine).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RailOptimised {
    /// Number of hosts.
    pub hosts: u32,
    /// Number of interfaces in each host.
    pub rails: u32,
    /// Number of hosts on a leaf, a divisor of `hosts`. If it is `hosts`, one leaf is a whole rail.
    pub hosts_per_leaf: u32,
    /// Number of switches above the leaves.
    pub spines: u32,
    /// Number of parallel cables from each leaf to each spine.
    pub links_per_spine: u32,
    /// Speed of the interfaces' links.
    pub host_rate: Rate,
    /// Speed of the links between switches. [`Topology::set_rate`] changes single links.
    pub fabric_rate: Rate,
    /// Delay of every link.
    pub delay: Ps,
}

impl RailOptimised {
    /// Builds the topology.
    ///
    /// # Errors
    /// A count is 0, the hosts do not fill the leaves, or the nodes or cables are too many.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let RailOptimised { hosts, rails, hosts_per_leaf, .. } = *self;
        at_least_one(&[
            ("hosts", hosts),
            ("rails", rails),
            ("hosts_per_leaf", hosts_per_leaf),
            ("spines", self.spines),
            ("links_per_spine", self.links_per_spine),
        ])?;
        if !hosts.is_multiple_of(hosts_per_leaf) {
            return Err(TopologyError::HostsPerLeaf { hosts, hosts_per_leaf });
        }
        product("interfaces", &[hosts, rails])?;
        let mut topology = Topology::default();
        topology.add_switches(hosts / hosts_per_leaf * rails, |_| SwitchSpec {
            tier: Tier::Edge,
            pod: 0,
        });
        for (host, rail) in (0..hosts).flat_map(|host| (0..rails).map(move |rail| (host, rail))) {
            let leaf = host / hosts_per_leaf * rails + rail;
            topology.add_nic(host, rail, leaf, self.host_rate, self.delay);
        }
        topology.add_spines(self.spines, self.links_per_spine, self.fabric_rate, self.delay)?;
        Ok(topology)
    }
}

#[cfg(test)]
impl RailOptimised {
    /// Three hosts with this number of rails of 100 Gb/s, one leaf for each rail, and one spine.
    pub(crate) fn three_hosts(rails: u32) -> Topology {
        let rate = Rate::from_gbps(100);
        let plan = RailOptimised {
            hosts: 3,
            rails,
            hosts_per_leaf: 3,
            spines: 1,
            links_per_spine: 1,
            host_rate: rate,
            fabric_rate: rate,
            delay: Ps::from_micros(1),
        };
        plan.build().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{NicSpec, Node, Routes};

    fn plan() -> RailOptimised {
        RailOptimised {
            hosts: 16,
            rails: 8,
            hosts_per_leaf: 16,
            spines: 4,
            links_per_spine: 2,
            host_rate: Rate::from_gbps(400),
            fabric_rate: Rate::from_gbps(400),
            delay: Ps::from_micros(1),
        }
    }

    #[test]
    fn the_same_rail_is_one_switch_away() {
        let topology = plan().build().unwrap();
        topology.check().unwrap();
        assert_eq!((topology.hosts(), topology.nics.len()), (16, 128));
        assert_eq!(topology.nics[8 * 3 + 5], NicSpec { host: 3, rail: 5, edge: 5 });
        assert_eq!(topology.meeting_tier(8 * 3 + 5, 8 * 9 + 5), Tier::Edge);
        assert_eq!(topology.meeting_tier(8 * 3 + 5, 8 * 9 + 6), Tier::Agg);
        let routes = Routes::new(&topology, |_| true);
        assert_eq!(routes.towards(5, 8 * 9 + 5).len(), 1);
        assert_eq!(routes.towards(5, 8 * 9 + 6).len(), 8);
        assert_eq!(topology.ports_of(Node::Nic(7)).count(), 1);
    }

    #[test]
    fn long_rails_have_several_leaves() {
        let topology = RailOptimised { hosts_per_leaf: 4, ..plan() }.build().unwrap();
        topology.check().unwrap();
        assert_eq!(topology.switches.len(), 4 * 8 + 4);
        assert_eq!(topology.nics[8 * 5 + 2].edge, 8 + 2);
        assert_eq!(topology.meeting_tier(2, 8 * 5 + 2), Tier::Agg);
    }

    #[test]
    fn leaves_must_be_full() {
        let refused = RailOptimised { hosts_per_leaf: 5, ..plan() }.build().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "hosts = 16 do not fill leaves of hosts_per_leaf = 5: give a divisor of 16"
        );
        let refused = RailOptimised { rails: 0, ..plan() }.build().unwrap_err();
        assert_eq!(refused, TopologyError::Zero { what: "rails" });
        let refused = RailOptimised { rails: u32::MAX, ..plan() }.build().unwrap_err();
        assert!(matches!(refused, TopologyError::TooLarge { what: "interfaces", .. }));
    }
}
