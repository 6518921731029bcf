//! The memory of a pair of interfaces, counted by the allocator: before its message, while all
//! messages are under way, and after it.
//!
//! There is only one test function, because allocations of others in this process would count too.

use std::alloc::System;

use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Topology};
use braid_sim::workload::{Message, Start, Workload};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const HOSTS: u32 = 32;
/// Packets of a message.
const PACKETS: u64 = 16;
/// Limit for a pair that has nothing to do, with its message and the report's times.
const IDLE_BYTES: usize = 2048;
/// Limit for a pair whose message is under way, with its packets.
const BUSY_BYTES: usize = 12 << 10;
/// The start of the messages.
const START: Ps = Ps::from_micros(100);

fn topology() -> Topology {
    let rate = Rate::from_gbps(400);
    let tree = LeafSpine {
        leaves: 4,
        hosts_per_leaf: HOSTS / 4,
        spines: 8,
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: Ps::from_micros(1),
    };
    tree.build().unwrap()
}

/// An all-to-all, each pair with `queues` queue pairs of one message.
fn all_to_all(queues: u32) -> Workload {
    let pairs = (1..HOSTS).flat_map(|turn| (0..HOSTS).map(move |src| (src, (src + turn) % HOSTS)));
    let messages = (0..queues).flat_map(|queue| {
        pairs.clone().map(move |(src, dst)| {
            let start = Start::At(START);
            Message { src, dst, bytes: PACKETS * 4096, start, queue, group: 0 }
        })
    });
    Workload::from(messages.collect::<Vec<_>>())
}

/// Returns the bytes before the messages, the most while they are under way, and those after them.
fn bytes(queues: u32) -> [usize; 3] {
    let before = ALLOCATOR.allocated();
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    let buffer = Buffer::PerPort { bytes: 1 << 40 };
    let network = NetworkConfig::plain(frames, buffer, Policy::Source);
    let host = HostConfig::default();
    let (workload, limit) = (all_to_all(queues), Ps::from_micros(1_000_000));
    let (topology, changes, seed) = (topology(), Vec::new(), 1);
    let plan = Plan { topology, network, host, workload, changes, seed, limit };
    let mut simulation = Simulation::new(plan);
    let start = ALLOCATOR.allocated() - before;
    let mut most = start;
    while !simulation.is_done() {
        simulation.step().unwrap();
        most = most.max(ALLOCATOR.allocated() - before);
    }
    simulation.run().unwrap();
    while simulation.step().is_ok() {} // the last timers
    let counters = simulation.hosts.counters();
    let packets = u64::from(queues * HOSTS * (HOSTS - 1)) * PACKETS;
    assert_eq!((counters.segments_sent, counters.segments_received), (packets, packets));
    let end = ALLOCATOR.allocated() - before;
    [start, most, end]
}

#[test]
fn a_pair_takes_memory_only_while_it_is_busy() {
    // The fabric and the path sets are the same in both runs.
    let (few, many) = (bytes(1), bytes(5));
    let pairs = (4 * HOSTS * (HOSTS - 1)) as usize;
    let [start, most, end] = [0, 1, 2].map(|at| (many[at] - few[at]) / pairs);
    println!("bytes per pair: {start} before its message, {most} busy, {end} after it");
    assert!(start <= IDLE_BYTES, "a pair costs {start} bytes before its message");
    assert!(most <= BUSY_BYTES, "a busy pair costs {most} bytes");
    assert!(end <= IDLE_BYTES, "a pair costs {end} bytes after its message");
}
