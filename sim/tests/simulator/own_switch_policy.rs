//! A switch policy from outside the crate, with a parameter, on a simulated fabric.

use std::collections::HashSet;

use braid_lb::LbPolicy;
use braid_sim::simulation::Change;
use braid_sim::switch::{Offer, Policy, PortPolicy, PortPolicyFactory, PortRng};
use braid_sim::time::Ps;
use braid_sim::topology::{PortId, Tier, Topology};

use super::spines::{BYTES, LEAVES, SPINES, bytes_by_spine};

/// The port at a fixed place among those that are offered; spines have no choice.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    place: usize,
    name: &'static str,
}

impl PortPolicy for Fixed {
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        assert_eq!(offer.topology.switches[offer.switch as usize].tier, Tier::Edge);
        offer.ports[self.place % offer.ports.len()]
    }
}

impl PortPolicyFactory for Fixed {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, _: &Topology, _: u32, _: &mut PortRng) -> Box<dyn PortPolicy> {
        Box::new(*self)
    }
}

/// The first one of the shortest queues, by the order of the ports.
#[derive(Debug)]
struct FirstShortest;

impl PortPolicy for FirstShortest {
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        let shortest = offer.ports.iter().min_by_key(|port| offer.queued(**port));
        *shortest.expect("two or more ports are offered")
    }
}

impl PortPolicyFactory for FirstShortest {
    fn name(&self) -> &str {
        "first-shortest"
    }

    fn build(&self, _: &Topology, _: u32, _: &mut PortRng) -> Box<dyn PortPolicy> {
        Box::new(FirstShortest)
    }
}

/// A policy that names a port of another switch.
#[derive(Debug)]
struct Astray;

impl PortPolicy for Astray {
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        offer.ports[0].reverse()
    }
}

impl PortPolicyFactory for Astray {
    fn name(&self) -> &str {
        "astray"
    }

    fn build(&self, _: &Topology, _: u32, _: &mut PortRng) -> Box<dyn PortPolicy> {
        Box::new(Astray)
    }
}

/// Returns the bytes that each spine has forwarded under a switch policy.
fn of(policy: Policy, changes: Vec<(Ps, Change)>) -> [u64; SPINES] {
    bytes_by_spine(LbPolicy::ECMP, policy, changes)
}

#[test]
fn switches_run_the_policy_that_they_were_given() {
    let mut reached = HashSet::new();
    for place in 0..SPINES {
        let fixed: &'static Fixed = Box::leak(Box::new(Fixed { place, name: "fixed" }));
        let bytes = of(Policy::custom(fixed), Vec::new());
        let used: Vec<usize> = (0..SPINES).filter(|spine| bytes[*spine] > 0).collect();
        assert_eq!(used.len(), 1, "place {place}: {bytes:?}");
        assert!(bytes[used[0]] > BYTES, "{bytes:?}");
        reached.extend(used);
    }
    assert_eq!(reached.len(), SPINES, "each place is a spine of its own");
}

#[test]
fn a_policy_sees_the_queues_and_the_routes_of_the_moment() {
    // A packet arrives while the one before it is being sent, so two spines take turns. The cable
    // to one of them is cut, and once routing has learnt of it, another spine takes its turns.
    let policy = || Policy::custom(&FirstShortest);
    let before = of(policy(), Vec::new());
    let used = |bytes: [u64; SPINES]| bytes.iter().filter(|bytes| **bytes > 0).count();
    assert_eq!(used(before), 2, "{before:?}");
    let spine = (0..SPINES).find(|spine| before[*spine] > 0).unwrap();
    // The hosts' cables come first, then those of the first leaf.
    let cable = LEAVES + spine as u32;
    let at = Ps::from_micros(20);
    let cut = Change::Cable { cable, up: false };
    let after = of(policy(), vec![(at, cut), (at, Change::Converge)]);
    assert!(after[spine] < before[spine] / 2, "{after:?}");
    assert_eq!(used(after), 3, "{after:?}");
}

#[test]
#[should_panic(expected = "switch policy astray chose")]
fn a_port_that_was_not_offered_is_refused() {
    of(Policy::custom(&Astray), Vec::new());
}

#[test]
fn policies_are_told_apart_by_their_names() {
    static ONE: Fixed = Fixed { place: 0, name: "one" };
    static OTHER: Fixed = Fixed { place: 0, name: "other" };
    assert_eq!(Policy::custom(&ONE), Policy::custom(&ONE));
    assert_ne!(Policy::custom(&ONE), Policy::custom(&OTHER));
    assert_eq!(format!("{:?}", Policy::custom(&OTHER)), "Custom(other)");
}
