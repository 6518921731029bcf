//! Pause frames: no packet is lost for want of room, however small the buffers are and however many
//! links feed one queue.

use std::time::Duration;

use braid_cc::{CcConfig, FixedWindow};
use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, Loss, NetworkConfig, Pause};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths, Recovery};
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{FatTree, LeafSpine, Topology};
use braid_sim::workload::{Message, Start, Workload};
use braid_transport::LossRecovery;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
const DELAY: Ps = Ps::from_micros(1);
const RUNS: u64 = 200;

/// Twice what a link of 100 Gb/s and 1 us holds, and two frames.
const HEADROOM: u64 = 2 * 12_500 + 2 * 4158;

fn topology(rng: &mut Pcg64Mcg) -> Topology {
    let rate = Rate::from_gbps(100);
    if rng.random() {
        return FatTree::k_ary(4, rate, DELAY).unwrap().build().unwrap();
    }
    let plan = LeafSpine {
        leaves: rng.random_range(2..5),
        hosts_per_leaf: rng.random_range(2..5),
        spines: rng.random_range(1..5),
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: DELAY,
    };
    plan.build().unwrap()
}

/// An incast, a permutation, or some messages between random hosts.
fn workload(rng: &mut Pcg64Mcg, hosts: u32) -> Workload {
    let bytes = rng.random_range(1..400_000);
    let mut order: Vec<u32> = (0..hosts).collect();
    order.shuffle(rng);
    let pairs: Vec<(u32, u32)> = match rng.random_range(0..3) {
        0 => order[1..].iter().map(|src| (*src, order[0])).collect(),
        1 => order.iter().zip(order.iter().cycle().skip(1)).map(|(a, b)| (*a, *b)).collect(),
        _ => {
            let dst = |src, rng: &mut Pcg64Mcg| (src + rng.random_range(1..hosts)) % hosts;
            let src: Vec<u32> = (0..3 * hosts).map(|_| rng.random_range(0..hosts)).collect();
            src.into_iter().map(|src| (src, dst(src, rng))).collect()
        }
    };
    let message = |(src, dst)| {
        let start = Start::At(Ps::ZERO);
        Message { src, dst, bytes, start, queue: 0, group: 0 }
    };
    Workload::from(pairs.into_iter().map(message).collect::<Vec<_>>())
}

/// Cables that become slower, and fast again.
fn degradations(rng: &mut Pcg64Mcg, topology: &Topology) -> Vec<(Ps, Change)> {
    let mut changes = Vec::new();
    for _ in 0..rng.random_range(0..4) {
        let cable = rng.random_range(0..topology.cables.len() as u32);
        let at = Ps(rng.random_range(0..40_000_000));
        for (at, gbps) in [(at, 10), (at + Ps::from_micros(50), 100)] {
            let both = Change::speed_of_cable(cable, Rate::from_gbps(gbps));
            changes.extend(both.map(|change| (at, change)));
        }
    }
    changes
}

fn plan(seed: u64) -> Plan {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let topology = topology(&mut rng);
    let workload = workload(&mut rng, topology.nics.len() as u32);
    let changes = degradations(&mut rng, &topology);
    let links = (0..topology.switches.len() as u32)
        .map(|switch| topology.ports_of(braid_sim::topology::Node::Switch(switch)).count() as u64)
        .max()
        .unwrap();
    let spare = rng.random_range(5_000..100_000);
    let buffer = match rng.random::<bool>() {
        true => Buffer::PerPort { bytes: HEADROOM + spare },
        false => {
            let alpha = *[0.125, 1.0, 8.0].choose(&mut rng).unwrap();
            Buffer::Shared { bytes: links * HEADROOM + 4158 + spare, alpha }
        }
    };
    let stop = *[20_000, u64::MAX].choose(&mut rng).unwrap();
    let policies = [Policy::Ecmp, Policy::Random, Policy::Shortest, Policy::Source];
    let network = NetworkConfig {
        pause: Some(Pause { stop, go: stop / 2 }),
        control_first: rng.random(),
        ..NetworkConfig::plain(FRAMES, buffer, policies.choose(&mut rng).unwrap().clone())
    };
    // Nobody slows down, and nothing is resent before all pauses are over.
    let host = HostConfig {
        lb: LbPolicy::OBLIVIOUS,
        paths: Paths::Hashed(16),
        health: false,
        recovery: Recovery::Protocol(LossRecovery::Sack),
        reorder_threshold: u32::MAX,
        cc: CcConfig::new(FixedWindow { window: 1 << 30 }),
        min_rto: Duration::from_secs(1),
        max_rto: Duration::from_secs(1),
        retry_timeout: Duration::from_secs(30),
        ..HostConfig::default()
    };
    let limit = Ps::from_micros(900_000);
    Plan { topology, network, host, workload, changes, seed, limit }
}

#[test]
fn no_packet_is_lost_for_want_of_room() {
    let mut paused = 0;
    for seed in 0..RUNS {
        let plan = plan(seed);
        let what = format!("seed {seed}: {:?}", plan.network);
        let mut run = Simulation::new(plan);
        run.run().unwrap_or_else(|error| panic!("{what}: {error}"));
        let ledger = &run.fabric.ledger;
        assert_eq!(ledger.dropped[Loss::NoRoom as usize], 0, "{what}");
        paused += u64::from(ledger.pauses > 0);
    }
    assert!(paused > RUNS / 2, "only {paused} runs paused a link: that tests little");
}
