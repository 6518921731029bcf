//! A path policy from outside the crate, with a parameter, on a simulated fabric.

use braid_lb::{Batch, LbPolicy, PathId, PathPolicy, PathPolicyFactory, PathRng, Paths, StreamId};
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node};
use braid_sim::workload::{Message, Start, Workload};

const SPINES: usize = 4;
const LEAVES: u32 = 2;

/// The same slot for every batch.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    slot: usize,
}

impl PathPolicy for Fixed {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(self.slot)
    }
}

impl PathPolicyFactory for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(*self)
    }
}

/// Returns the bytes that each spine has forwarded of one message between two leaves.
fn bytes_by_spine(lb: LbPolicy) -> [u64; SPINES] {
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
    let buffer = Buffer::PerPort { bytes: 1 << 40 };
    let plain = NetworkConfig::plain(frames, buffer, Policy::Source);
    let network = NetworkConfig { control_first: false, ..plain };
    let (src, dst, start) = (0, 1, Start::At(Ps::ZERO));
    let message = Message { src, dst, bytes: 1 << 20, start, queue: 0, group: 0 };
    let mut simulation = Simulation::new(Plan {
        topology: topology.build().unwrap(),
        network,
        host: HostConfig { lb, ..HostConfig::default() },
        workload: Workload::from(vec![message]),
        changes: Vec::new(),
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
fn the_simulator_runs_the_policy_that_it_was_given() {
    let mut reached = Vec::new();
    for slot in 0..SPINES {
        let lb = LbPolicy::custom(Box::leak(Box::new(Fixed { slot })));
        let bytes = bytes_by_spine(lb);
        let used: Vec<usize> = (0..SPINES).filter(|spine| bytes[*spine] > 0).collect();
        assert_eq!(used.len(), 1, "slot {slot}: {bytes:?}");
        assert!(bytes[used[0]] > 1 << 20, "{bytes:?}");
        reached.extend(used);
    }
    reached.sort_unstable();
    assert_eq!(reached, [0, 1, 2, 3], "each slot is a spine of its own");
    assert!(bytes_by_spine(LbPolicy::ROUND_ROBIN).iter().all(|bytes| *bytes > 0));
}
