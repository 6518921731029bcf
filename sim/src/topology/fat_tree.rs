//! Three-tier fat trees: edges and aggregation switches in pods, with cores above them.

use super::error::{TopologyError, at_least_one, product};
use super::{Node, SwitchSpec, TOP_POD, Tier, Topology};
use crate::time::{Ps, Rate};

/// A three-tier fat tree. For two tiers see [`LeafSpine::k_ary`](super::LeafSpine::k_ary). Hosts
/// have one interface each and are numbered edge by edge, pod by pod.
///
/// The switches are the edges, pod by pod, then the aggregation switches, pod by pod, then the
/// cores. With `u = cores / aggs_per_pod`, aggregation switch `a` of every pod is linked to the
/// cores `a * u` to `a * u + u - 1`. The ports of a switch are those down, by number, then those
/// up, by number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Number of pods.
    pub pods: u32,
    /// Number of edge switches per pod.
    pub edges_per_pod: u32,
    /// Number of aggregation switches per pod.
    pub aggs_per_pod: u32,
    /// Number of core switches, a multiple of `aggs_per_pod`.
    pub cores: u32,
    /// Number of hosts below each edge.
    pub hosts_per_edge: u32,
    /// Speed of the hosts' links.
    pub host_rate: Rate,
    /// Speed of the links between switches. [`Topology::set_rate`] changes single links.
    pub fabric_rate: Rate,
    /// Delay of every link.
    pub delay: Ps,
}

impl FatTree {
    /// Creates the fat tree of switches with `k` ports and as much bandwidth up as down. It has `k`
    /// pods of `k / 2` edges and `k / 2` aggregation switches, `k * k / 4` cores, `k * k * k / 4`
    /// hosts. For example, `k` = 8 gives 128 hosts, and 16 gives 1024.
    ///
    /// # Errors
    /// `k` is odd or zero, or the switches cannot be numbered.
    pub fn k_ary(k: u32, rate: Rate, delay: Ps) -> Result<FatTree, TopologyError> {
        if k == 0 || !k.is_multiple_of(2) {
            return Err(TopologyError::OddArity { k });
        }
        Ok(FatTree {
            pods: k,
            edges_per_pod: k / 2,
            aggs_per_pod: k / 2,
            cores: product("cores", &[k / 2, k / 2])?,
            hosts_per_edge: k / 2,
            host_rate: rate,
            fabric_rate: rate,
            delay,
        })
    }

    /// Builds the topology.
    ///
    /// # Errors
    /// A count is 0, the aggregation switches cannot share the cores evenly, or the nodes or cables
    /// are too many.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let FatTree { pods, edges_per_pod, aggs_per_pod, cores, hosts_per_edge, .. } = *self;
        at_least_one(&[
            ("pods", pods),
            ("edges_per_pod", edges_per_pod),
            ("aggs_per_pod", aggs_per_pod),
            ("cores", cores),
            ("hosts_per_edge", hosts_per_edge),
        ])?;
        if !cores.is_multiple_of(aggs_per_pod) {
            return Err(TopologyError::Cores { cores, aggs_per_pod });
        }
        let edges = product("edge switches", &[pods, edges_per_pod])?;
        let aggs = product("aggregation switches", &[pods, aggs_per_pod])?;
        let hosts = product("hosts", &[edges, hosts_per_edge])?;
        product("core switches", &[cores])?;
        product("cables from edge to aggregation", &[edges, aggs_per_pod])?;
        product("cables from aggregation to core", &[pods, cores])?;

        let mut topology = Topology::default();
        let in_pods = |tier, per_pod| move |index| SwitchSpec { tier, pod: index / per_pod };
        topology.add_switches(edges, in_pods(Tier::Edge, edges_per_pod));
        topology.add_switches(aggs, in_pods(Tier::Agg, aggs_per_pod));
        topology.add_switches(cores, |_| SwitchSpec { tier: Tier::Core, pod: TOP_POD });
        for host in 0..hosts {
            topology.add_nic(host, 0, host / hosts_per_edge, self.host_rate, self.delay);
        }
        self.wire_switches(&mut topology, edges, aggs);
        Ok(topology)
    }

    fn wire_switches(&self, topology: &mut Topology, edges: u32, aggs: u32) {
        let mut add = |low, high| {
            topology.add_cable(Node::Switch(low), Node::Switch(high), self.fabric_rate, self.delay);
        };
        for edge in 0..edges {
            let pod = edge / self.edges_per_pod;
            for agg in 0..self.aggs_per_pod {
                add(edge, edges + pod * self.aggs_per_pod + agg);
            }
        }
        let uplinks = self.cores / self.aggs_per_pod;
        for agg in 0..aggs {
            let first = (agg % self.aggs_per_pod) * uplinks;
            for core in first..first + uplinks {
                add(edges + agg, edges + aggs + core);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{PortId, Routes};

    fn k_ary(k: u32) -> Topology {
        let topology = FatTree::k_ary(k, Rate::from_gbps(800), Ps::from_nanos(500));
        let topology = topology.unwrap().build().unwrap();
        topology.check().unwrap();
        topology
    }

    /// Counts the different routes from a switch to an interface.
    fn count_routes(topology: &Topology, routes: &Routes, switch: u32, nic: u32) -> usize {
        let next = |port: &PortId| match topology.ends(*port).1 {
            Node::Nic(_) => 1,
            Node::Switch(next) => count_routes(topology, routes, next, nic),
        };
        let mut ports = routes.towards(switch, nic).to_vec();
        ports.sort_unstable();
        ports.dedup();
        ports.iter().map(next).sum()
    }

    #[test]
    fn k_8_has_128_hosts_and_16_routes_between_pods() {
        let topology = k_ary(8);
        assert_eq!((topology.hosts(), topology.switches.len()), (128, 32 + 32 + 16));
        assert!((0..80).all(|switch| topology.ports_of(Node::Switch(switch)).count() == 8));
        let routes = Routes::new(&topology, |_| true);
        assert_eq!(routes.towards(0, 127).len(), 4);
        assert_eq!(routes.towards(32, 127).len(), 4);
        assert_eq!(routes.towards(64, 127).len(), 1);
        assert_eq!(count_routes(&topology, &routes, 0, 127), 16);
        assert_eq!(count_routes(&topology, &routes, 0, 4), 4);
        assert_eq!(count_routes(&topology, &routes, 0, 3), 1);
    }

    #[test]
    fn every_pair_has_as_many_routes_as_its_meeting_tier_offers() {
        let topology = k_ary(4);
        let routes = Routes::new(&topology, |_| true);
        for (src, dst) in (0..16).flat_map(|src| (0..16).map(move |dst| (src, dst))) {
            let expected = match topology.meeting_tier(src, dst) {
                Tier::Edge => 1,
                Tier::Agg => 2,
                _ => 4,
            };
            let edge = topology.nics[src as usize].edge;
            assert_eq!(count_routes(&topology, &routes, edge, dst), expected, "{src} to {dst}");
        }
    }

    #[test]
    fn the_meeting_tier_follows_the_pods() {
        let topology = k_ary(8);
        assert_eq!(topology.meeting_tier(0, 3), Tier::Edge);
        assert_eq!(topology.meeting_tier(0, 4), Tier::Agg);
        assert_eq!(topology.meeting_tier(15, 16), Tier::Core);
    }

    #[test]
    fn aggregation_switches_share_the_cores_in_blocks() {
        let topology = k_ary(8);
        let above = |switch| -> Vec<Node> {
            let ports = topology.uplinks(switch);
            ports.map(|port| topology.ends(port).1).collect()
        };
        let cores = |first: u32| (first..first + 4).map(Node::Switch).collect::<Vec<_>>();
        assert_eq!(above(32), cores(64));
        assert_eq!(above(35), cores(76));
        assert_eq!(above(36), cores(64));
    }

    #[test]
    fn ports_go_down_first() {
        let topology = k_ary(4);
        for switch in 0..20 {
            let ups: Vec<bool> =
                topology.ports_of(Node::Switch(switch)).map(PortId::is_up).collect();
            assert!(ups.is_sorted(), "switch {switch}: {ups:?}");
        }
    }

    /// A core that lost its cable to a pod is on no route to that pod, and stays on the routes to
    /// the others.
    #[test]
    fn routes_go_round_a_lost_cable() {
        let topology = k_ary(8);
        let lost = topology
            .cables
            .iter()
            .position(|cable| (cable.low, cable.high) == (Node::Switch(60), Node::Switch(64)));
        let routes = Routes::new(&topology, |port| Some(port.cable()) != lost);
        assert_eq!(count_routes(&topology, &routes, 0, 127), 15);
        assert_eq!(routes.towards(32, 127).len(), 3);
        assert_eq!(count_routes(&topology, &routes, 0, 63), 16);
        assert_eq!(count_routes(&topology, &routes, 31, 0), 15);
    }

    #[test]
    fn an_edge_that_lost_all_its_links_up_is_not_reached() {
        let topology = k_ary(4);
        let cut = |port: PortId| topology.cables[port.cable()].low != Node::Switch(0);
        let routes = Routes::new(&topology, cut);
        assert!(routes.towards(0, 15).is_empty());
        assert!(routes.towards(7, 0).is_empty());
        assert_eq!(routes.towards(0, 1).len(), 1);
    }

    /// Routes are computed at every failure of a run, so this must not take seconds.
    #[test]
    fn routes_of_1024_hosts_are_found_at_once() {
        let topology = k_ary(16);
        assert_eq!(topology.hosts(), 1024);
        let start = std::time::Instant::now();
        let routes = Routes::new(&topology, |_| true);
        let limit = if cfg!(debug_assertions) { 2.0 } else { 0.2 };
        let took = start.elapsed().as_secs_f64();
        assert_eq!(routes.towards(0, 1023).len(), 8);
        assert!(took < limit, "took {took} s");
    }

    #[test]
    fn counts_can_be_given_one_by_one() {
        let plan = FatTree {
            pods: 3,
            edges_per_pod: 2,
            aggs_per_pod: 2,
            cores: 6,
            hosts_per_edge: 5,
            host_rate: Rate::from_gbps(100),
            fabric_rate: Rate::from_gbps(400),
            delay: Ps::from_micros(1),
        };
        let topology = plan.build().unwrap();
        topology.check().unwrap();
        assert_eq!((topology.hosts(), topology.switches.len()), (30, 6 + 6 + 6));
        let routes = Routes::new(&topology, |_| true);
        assert_eq!(count_routes(&topology, &routes, 0, 29), 6);

        let refused = FatTree { cores: 5, ..plan.clone() }.build().unwrap_err();
        assert_eq!(refused, TopologyError::Cores { cores: 5, aggs_per_pod: 2 });
        assert!(refused.to_string().contains("give a multiple of 2"), "{refused}");
        let refused = FatTree { pods: 0, ..plan.clone() }.build().unwrap_err();
        assert_eq!(refused, TopologyError::Zero { what: "pods" });
        let refused = FatTree { hosts_per_edge: u32::MAX, ..plan }.build().unwrap_err();
        assert!(matches!(refused, TopologyError::TooLarge { what: "hosts", .. }), "{refused}");
        for k in [0, 7, u32::MAX - 1] {
            let refused = FatTree::k_ary(k, Rate::from_gbps(1), Ps::ZERO);
            assert!(refused.is_err(), "k = {k}");
        }
    }
}
