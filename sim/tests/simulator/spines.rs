//! One message over a leaf-spine fabric, to see which spines it crosses.

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node};
use braid_sim::workload::{Message, Start, Workload};

pub(crate) const SPINES: usize = 4;
pub(crate) const LEAVES: u32 = 2;
/// The length of the message.
pub(crate) const BYTES: u64 = 1 << 20;

/// Returns the bytes that each spine has forwarded of one message between two leaves, from
/// the one host and back.
pub(crate) fn bytes_by_spine(
    lb: LbPolicy,
    switch: Policy,
    changes: Vec<(Ps, Change)>,
) -> [u64; SPINES] {
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
    let plain = NetworkConfig::plain(frames, buffer, switch);
    let network = NetworkConfig { control_first: false, ..plain };
    let (src, dst, start) = (0, 1, Start::At(Ps::ZERO));
    let message = Message { src, dst, bytes: BYTES, start, queue: 0, group: 0 };
    let mut simulation = Simulation::new(Plan {
        topology: topology.build().unwrap(),
        network,
        host: HostConfig { lb, ..HostConfig::default() },
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
