//! Receiver credit (`rccc`): incast with bounded queues and even shares, with and without trimming,
//! and networks that lose requests, grants and data.

use std::time::Duration;

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node, PortId};
use braid_sim::workload::{Message, Start, Workload};

const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
const GBPS: u64 = 100;
/// The bandwidth-delay product of 100 Gb/s and 5 us, about the round trip of the star.
const PRODUCT: u64 = 62_500;
const MIB: u64 = 1 << 20;

/// An incast on one switch.
#[derive(Clone, Copy)]
struct Incast {
    senders: u32,
    /// Bytes of each message.
    bytes: u64,
    /// Bytes of a port's buffer.
    buffer: u64,
    trim: bool,
    cc: &'static str,
    seed: u64,
}

const INCAST: Incast = Incast {
    senders: 8,
    bytes: 4 * MIB,
    buffer: 1 << 40,
    trim: false,
    cc: "rccc:line=100G,rtt=5us",
    seed: 1,
};

/// The readings of a run at the port towards the receiver.
#[derive(Debug, Default)]
struct Readings {
    /// The longest queue once the first window has drained, in bytes.
    queue: u64,
    /// Jain's index of the bytes that senders have sent when half is delivered.
    jain: f64,
    /// Packets lost or trimmed after the first window has drained.
    lost_later: u64,
    /// Share of the receiver's link that the payload has used.
    used: f64,
    timeouts: u64,
}

impl Incast {
    fn plan(&self) -> Plan {
        let star = LeafSpine {
            leaves: 1,
            hosts_per_leaf: self.senders + 1,
            spines: 1,
            links_per_spine: 1,
            host_rate: Rate::from_gbps(GBPS),
            fabric_rate: Rate::from_gbps(GBPS),
            delay: Ps::from_micros(1),
        };
        let buffer = Buffer::PerPort { bytes: self.buffer };
        let plain = NetworkConfig::plain(FRAMES, buffer, Policy::Ecmp);
        let network = NetworkConfig { control_first: true, trim: self.trim, ..plain };
        let message = |src| Message {
            src,
            dst: 0,
            bytes: self.bytes,
            start: Start::At(Ps::ZERO),
            queue: 0,
            group: 0,
        };
        Plan {
            topology: star.build().unwrap(),
            network,
            host: HostConfig {
                lb: LbPolicy::ECMP,
                cc: self.cc.parse().unwrap(),
                min_rto: Duration::from_micros(200),
                ..HostConfig::default()
            },
            workload: Workload::from((1..=self.senders).map(message).collect::<Vec<_>>()),
            changes: Vec::new(),
            seed: self.seed,
            limit: Ps::from_micros(1_000_000),
        }
    }

    fn run(&self) -> Readings {
        let mut run = Simulation::new(self.plan());
        let port = receiving_port(&run);
        // All first windows at the rate of the link, and as long again.
        let drained = Ps::from_micros(10) * u64::from(self.senders);
        let (mut lost_before, mut half) = (None, None);
        let mut readings = Readings::default();
        while !run.is_done() {
            run.step().unwrap();
            if run.events.now() > drained {
                readings.queue = readings.queue.max(run.fabric.ports[port.index()].bytes);
                lost_before.get_or_insert_with(|| losses(&run));
            }
            if 2 * run.delivered_bytes() >= self.bytes * u64::from(self.senders) {
                half.get_or_insert_with(|| self.shares(&run));
            }
        }
        readings.jain = jain(&half.expect("half was delivered"));
        readings.lost_later = losses(&run) - lost_before.expect("it took longer");
        let bits = 8 * self.bytes * u64::from(self.senders);
        readings.used = bits as f64 / run.completion_time().as_micros_f64() / (GBPS * 1000) as f64;
        readings.timeouts = run.hosts.counters().timeouts;
        readings
    }

    fn shares(&self, run: &Simulation) -> Vec<f64> {
        (0..self.senders)
            .map(|message| run.hosts.sender_counters(message).bytes_sent as f64)
            .collect()
    }
}

fn receiving_port(run: &Simulation) -> PortId {
    run.fabric.topology.ports_between(Node::Switch(0), Node::Nic(0)).next().unwrap()
}

fn losses(run: &Simulation) -> u64 {
    run.fabric.ledger.losses() + run.fabric.ledger.trimmed
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / squares / shares.len() as f64
}

#[test]
fn an_incast_fills_the_link_with_a_short_queue_and_even_shares() {
    for (senders, bytes) in [(8, 4 * MIB), (32, MIB)] {
        let readings = Incast { senders, bytes, ..INCAST }.run();
        assert!(readings.queue <= PRODUCT, "{senders}: {readings:?}");
        assert!(readings.jain >= 0.95, "{senders}: {readings:?}");
        assert!(readings.used >= 0.9, "{senders}: {readings:?}");
        assert_eq!(readings.timeouts, 0, "{senders}: {readings:?}");
    }
    // What the bounds of the queue are worth: a window alone does not keep them.
    let readings = Incast { cc: "fixed:1M", ..INCAST }.run();
    assert!(readings.queue > 8 * PRODUCT, "{readings:?}");
}

#[test]
fn nothing_is_lost_after_the_first_window() {
    for trim in [false, true] {
        for (senders, bytes) in [(8, 4 * MIB), (32, MIB)] {
            let readings = Incast { senders, bytes, buffer: 4 * PRODUCT, trim, ..INCAST }.run();
            assert_eq!(readings.lost_later, 0, "{senders}, {trim}: {readings:?}");
            assert!(readings.jain >= 0.95, "{senders}, {trim}: {readings:?}");
            assert!(!trim || readings.timeouts == 0, "{senders}: {readings:?}");
            assert!(!trim || readings.used >= 0.9, "{senders}: {readings:?}");
        }
    }
}

/// All links lose packets of every kind: data, acknowledgements, requests and grants.
#[test]
fn lost_requests_and_grants_delay_a_stream_and_never_stop_it() {
    for seed in 0..12 {
        let incast = Incast { bytes: 256 << 10, seed, buffer: 4 * PRODUCT, ..INCAST };
        for trim in [false, true] {
            let mut plan = Incast { trim, ..incast }.plan();
            let cables = plan.topology.cables.len() as u32;
            let share = [0.01, 0.05, 0.2][seed as usize % 3];
            let lossy = |port| (Ps::ZERO, Change::Loss { port, share });
            plan.changes = (0..cables).flat_map(PortId::of_cable).map(lossy).collect();
            let mut run = Simulation::new(plan);
            run.run().unwrap_or_else(|error| panic!("seed {seed}, trim {trim}: {error}"));
        }
    }
}

/// Nothing but the grants is lost: the path from the receiver is down for some time. Credit is a
/// total, so what comes after that makes up for it.
#[test]
fn grants_that_are_lost_together_are_made_up_for() {
    let mut plan = Incast { bytes: MIB, ..INCAST }.plan();
    let up = plan.topology.ports_between(Node::Nic(0), Node::Switch(0)).next().unwrap();
    let all = |share| Change::Loss { port: up, share };
    plan.changes = vec![(Ps::from_micros(100), all(1.0)), (Ps::from_micros(400), all(0.0))];
    let mut run = Simulation::new(plan);
    run.run().unwrap();
    // 0.67 ms at the rate of the link, and 0.3 ms without grants.
    let took = run.completion_time().as_micros_f64();
    assert!((970.0..2_000.0).contains(&took), "{took} us");
}
