//! Two-tier fabrics: every leaf has links to every spine.

use super::error::{TopologyError, at_least_one, product};
use super::{Node, SwitchSpec, TOP_POD, Tier, Topology};
use crate::time::{Ps, Rate};

/// A leaf-spine fabric. Hosts have one interface each and are numbered leaf by leaf.
///
/// Leaf `l` is switch `l`, and spine `s` is switch `leaves + s`. The ports of a leaf are its hosts,
/// then its uplinks in the order spine 0, 1, .., repeated for each parallel cable. The ports of a
/// spine are its links down, leaf by leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpine {
    /// Number of switches with hosts below.
    pub leaves: u32,
    /// Number of hosts below each leaf.
    pub hosts_per_leaf: u32,
    /// Number of switches above the leaves.
    pub spines: u32,
    /// Number of parallel cables from each leaf to each spine.
    pub links_per_spine: u32,
    /// Speed of the hosts' links.
    pub host_rate: Rate,
    /// Speed of the links between switches. [`Topology::set_rate`] changes single links.
    pub fabric_rate: Rate,
    /// Delay of every link.
    pub delay: Ps,
}

impl LeafSpine {
    /// Creates the two-tier fat tree of switches with `k` ports and as much bandwidth up as down:
    /// `k` leaves, `k / 2` spines, `k * k / 2` hosts.
    ///
    /// # Errors
    /// `k` is odd or zero.
    pub fn k_ary(k: u32, rate: Rate, delay: Ps) -> Result<LeafSpine, TopologyError> {
        if k == 0 || !k.is_multiple_of(2) {
            return Err(TopologyError::OddArity { k });
        }
        Ok(LeafSpine {
            leaves: k,
            hosts_per_leaf: k / 2,
            spines: k / 2,
            links_per_spine: 1,
            host_rate: rate,
            fabric_rate: rate,
            delay,
        })
    }

    /// Builds the topology.
    ///
    /// # Errors
    /// A count is 0, or the nodes or cables are too many.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least_one(&[
            ("leaves", self.leaves),
            ("hosts_per_leaf", self.hosts_per_leaf),
            ("spines", self.spines),
            ("links_per_spine", self.links_per_spine),
        ])?;
        let hosts = product("hosts", &[self.leaves, self.hosts_per_leaf])?;
        let mut topology = Topology::default();
        topology.add_switches(self.leaves, |_| SwitchSpec { tier: Tier::Edge, pod: 0 });
        for host in 0..hosts {
            topology.add_nic(host, 0, host / self.hosts_per_leaf, self.host_rate, self.delay);
        }
        topology.add_spines(self.spines, self.links_per_spine, self.fabric_rate, self.delay)?;
        Ok(topology)
    }
}

impl Topology {
    /// Adds spines above all existing switches.
    pub(super) fn add_spines(
        &mut self,
        spines: u32,
        links_per_spine: u32,
        rate: Rate,
        delay: Ps,
    ) -> Result<(), TopologyError> {
        let leaves = self.switches.len() as u32;
        product("switches", &[spines])?;
        product("cables between switches", &[leaves, spines, links_per_spine])?;
        self.add_switches(spines, |_| SwitchSpec { tier: Tier::Agg, pod: TOP_POD });
        for leaf in 0..leaves {
            // Spine by spine first, so that a rotation over the ports changes the spine at every
            // step.
            for spine in (0..links_per_spine).flat_map(|_| 0..spines) {
                self.add_cable(Node::Switch(leaf), Node::Switch(leaves + spine), rate, delay);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{PortId, Routes};

    fn small() -> LeafSpine {
        LeafSpine {
            leaves: 2,
            hosts_per_leaf: 3,
            spines: 2,
            links_per_spine: 2,
            host_rate: Rate::from_gbps(100),
            fabric_rate: Rate::from_gbps(400),
            delay: Ps::from_micros(1),
        }
    }

    #[test]
    fn oversubscription_is_that_of_the_worst_switch_and_direction() {
        let plan = LeafSpine { hosts_per_leaf: 8, spines: 1, ..small() };
        let mut topology = plan.build().unwrap();
        assert_eq!(topology.oversubscription(), 1, "8 x 100 below 2 x 400");
        let up = topology.ports_of(Node::Switch(0)).find(|port| port.is_up()).unwrap();
        topology.set_port_rate(up, Rate::from_gbps(100));
        assert_eq!(topology.oversubscription(), 2, "8 x 100 below 100 + 400, rounded up");
        topology.set_port_rate(up.reverse(), Rate::from_gbps(10));
        topology.set_port_rate(up, Rate::from_gbps(400));
        assert_eq!(topology.oversubscription(), 2, "the way down counts as well");
    }

    #[test]
    fn a_leafs_ports_are_its_hosts_then_the_spines_in_turn() {
        let topology = small().build().unwrap();
        topology.check().unwrap();
        let across = |switch| -> Vec<Node> {
            topology.ports_of(Node::Switch(switch)).map(|port| topology.ends(port).1).collect()
        };
        let (nic, switch) = (Node::Nic, Node::Switch);
        let up = [switch(2), switch(3), switch(2), switch(3)];
        assert_eq!(across(1), [&[nic(3), nic(4), nic(5)][..], &up].concat());
        assert_eq!(across(2), [switch(0), switch(0), switch(1), switch(1)]);
        assert_eq!((topology.hosts(), topology.nics[4].edge), (6, 1));
    }

    #[test]
    fn parallel_links_are_equal_routes() {
        let topology = small().build().unwrap();
        let routes = Routes::new(&topology, |_| true);
        assert_eq!(routes.towards(0, 5).len(), 4);
        assert_eq!(routes.towards(2, 5).len(), 2);
        assert_eq!(routes.towards(1, 5).len(), 1);
        assert_eq!(topology.meeting_tier(0, 1), Tier::Edge);
        assert_eq!(topology.meeting_tier(0, 3), Tier::Agg);
    }

    #[test]
    fn one_link_can_be_slower() {
        let mut topology = small().build().unwrap();
        let slow = Rate::from_gbps(50);
        topology.set_rate(Node::Switch(0), Node::Switch(3), slow).unwrap();
        let slowed =
            topology.cables.iter().filter(|cable| (cable.up, cable.down) == (slow, slow)).count();
        assert_eq!(slowed, 2);
        let refused = topology.set_rate(Node::Switch(0), Node::Switch(1), slow).unwrap_err();
        assert_eq!(refused, TopologyError::NoCable { low: Node::Switch(0), high: Node::Switch(1) });
    }

    #[test]
    fn a_spine_without_the_cable_is_on_no_route() {
        let topology = LeafSpine { links_per_spine: 1, ..small() }.build().unwrap();
        let lost = topology
            .cables
            .iter()
            .position(|cable| (cable.low, cable.high) == (Node::Switch(1), Node::Switch(2)));
        let routes = Routes::new(&topology, |port: PortId| Some(port.cable()) != lost);
        let ports = routes.towards(0, 5);
        assert_eq!(ports.len(), 1);
        assert_eq!(topology.ends(ports[0]).1, Node::Switch(3));
        assert_eq!(routes.towards(1, 0).len(), 1);
    }

    #[test]
    fn impossible_sizes_say_why() {
        let error = |plan: LeafSpine| plan.build().unwrap_err().to_string();
        assert_eq!(
            error(LeafSpine { spines: 0, ..small() }),
            "spines = 0 leaves nothing to build: give at least 1"
        );
        assert!(error(LeafSpine { leaves: u32::MAX, ..small() }).contains("hosts are too many"));
        assert!(error(LeafSpine { spines: u32::MAX, ..small() }).contains("switches are too many"));
        let dense = LeafSpine { leaves: 4096, hosts_per_leaf: 1, spines: 4096, ..small() };
        assert!(error(dense).contains("33554432 cables between switches are too many"));
        let odd = LeafSpine::k_ary(5, Rate::from_gbps(1), Ps::ZERO).unwrap_err();
        assert!(odd.to_string().contains("k = 5"));
    }

    #[test]
    fn a_k_ary_one_has_as_much_up_as_down() {
        let topology =
            LeafSpine::k_ary(16, Rate::from_gbps(200), Ps::ZERO).unwrap().build().unwrap();
        assert_eq!((topology.hosts(), topology.switches.len()), (128, 24));
        let ports = |switch| topology.ports_of(Node::Switch(switch)).count();
        assert!((0..24).all(|switch| ports(switch) == 16));
    }
}
