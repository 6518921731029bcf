//! A switch policy from outside the crate, with a parameter, on a simulated fabric.

use std::collections::HashSet;

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::switch::{Offer, Policy, PortPolicy, PortPolicyFactory, PortRng};
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node, PortId, Tier, Topology};
use braid_sim::workload::{Message, Start, Workload};

const SPINES: usize = 4;
const LEAVES: u32 = 2;
const BYTES: u64 = 1 << 20;

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

/// Returns the bytes that each spine has forwarded of one message between two leaves, from the one
/// host and back.
fn bytes_by_spine(policy: Policy, changes: Vec<(Ps, Change)>) -> [u64; SPINES] {
    let rate = Rate::from_gbps(100);
    let topology = LeafSpine {
        leaves: LEAVES,
        hosts_per_leaf: 1,
        spines: SPINES as u32,
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: Ps::from_nanos(500),
    };
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    let network = NetworkConfig::plain(frames, Buffer::PerPort { bytes: 1 << 40 }, policy);
    let (src, dst, start) = (0, 1, Start::At(Ps::ZERO));
    let message = Message { src, dst, bytes: BYTES, start, queue: 0, group: 0 };
    let mut simulation = Simulation::new(Plan {
        topology: topology.build().unwrap(),
        network,
        host: HostConfig { lb: LbPolicy::ECMP, ..HostConfig::default() },
        workload: Workload::from(vec![message]),
        changes,
        seed: 1,
        limit: Ps::from_micros(1_000_000),
    });
    simulation.run().unwrap();
    let mut bytes = [0; SPINES];
    for port in &simulation.fabric.ports {
        match port.from {
            Node::Switch(switch) if switch >= LEAVES => {
                bytes[(switch - LEAVES) as usize] += port.sent.bytes;
            }
            Node::Switch(_) | Node::Nic(_) => {}
        }
    }
    bytes
}

#[test]
fn switches_run_the_policy_that_they_were_given() {
    let mut reached = HashSet::new();
    for place in 0..SPINES {
        let fixed: &'static Fixed = Box::leak(Box::new(Fixed { place, name: "fixed" }));
        let bytes = bytes_by_spine(Policy::custom(fixed), Vec::new());
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
    let before = bytes_by_spine(policy(), Vec::new());
    let used = |bytes: [u64; SPINES]| bytes.iter().filter(|bytes| **bytes > 0).count();
    assert_eq!(used(before), 2, "{before:?}");
    let spine = (0..SPINES).find(|spine| before[*spine] > 0).unwrap();
    // The hosts' cables come first, then those of the first leaf.
    let cable = LEAVES + spine as u32;
    let at = Ps::from_micros(20);
    let cut = Change::Cable { cable, up: false };
    let after = bytes_by_spine(policy(), vec![(at, cut), (at, Change::Converge)]);
    assert!(after[spine] < before[spine] / 2, "{after:?}");
    assert_eq!(used(after), 3, "{after:?}");
}

#[test]
#[should_panic(expected = "switch policy astray chose")]
fn a_port_that_was_not_offered_is_refused() {
    bytes_by_spine(Policy::custom(&Astray), Vec::new());
}

#[test]
fn policies_are_told_apart_by_their_names() {
    static ONE: Fixed = Fixed { place: 0, name: "one" };
    static OTHER: Fixed = Fixed { place: 0, name: "other" };
    assert_eq!(Policy::custom(&ONE), Policy::custom(&ONE));
    assert_ne!(Policy::custom(&ONE), Policy::custom(&OTHER));
    assert_eq!(format!("{:?}", Policy::custom(&OTHER)), "Custom(other)");
}
