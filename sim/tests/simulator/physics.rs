//! The fabric against known results about queues: times to the picosecond, and means of queueing
//! theory.

use std::time::Duration;

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{FatTree, LeafSpine, Node, Topology};
use braid_sim::workload::{Message, Start, Workload, bounds};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };

fn run(topology: Topology, workload: Workload) -> Simulation {
    let network = NetworkConfig {
        control_first: false,
        ..NetworkConfig::plain(FRAMES, Buffer::PerPort { bytes: 1 << 40 }, Policy::Ecmp)
    };
    let limit = Ps(1 << 60);
    let (lb, second) = (LbPolicy::ECMP, Duration::from_secs(1));
    let host = HostConfig { lb, min_rto: second, max_rto: second, ..HostConfig::default() };
    let plan = Plan { topology, network, host, workload, changes: Vec::new(), seed: 1, limit };
    let mut simulation = Simulation::new(plan);
    simulation.run().unwrap();
    simulation
}

fn message(src: u32, dst: u32, bytes: u64, at: Ps) -> Message {
    Message { src, dst, bytes, start: Start::At(at), queue: 0, group: 0 }
}

/// Store and forward over H links. The last of n packets is at the sender's link after (n - 1)
/// times frame and gap. It then crosses H links, and its acknowledgement returns over as many.
#[test]
fn a_lone_flow_takes_the_analytic_time_to_the_picosecond() {
    let (rate, delay) = (Rate::from_gbps(800), Ps::from_nanos(500));
    for (dst, links) in [(1, 2), (4, 4), (127, 6)] {
        for bytes in [1, 4096, 4097, 1 << 20, (1 << 24) + 1] {
            let topology = FatTree::k_ary(8, rate, delay).unwrap().build().unwrap();
            let workload = Workload::from(vec![message(0, dst, bytes, Ps::ZERO)]);
            let took = run(topology, workload).completion_time();
            let packets = bytes.div_ceil(4096);
            // Packets of one length in words of 8 bytes, and the rest.
            let each = bytes.div_ceil(packets).next_multiple_of(8).min(bytes);
            let last = (bytes - (packets - 1) * each) as u32 + 62;
            let each = each as u32 + 62;
            // The packet before the last one may still be in front of it at every link.
            let apart = rate.time_for(each + 20);
            let mut at = apart * (packets - 1);
            for link in 0..links {
                let ahead = match packets {
                    1 => Ps::ZERO,
                    _ => apart * (packets - 1) + (rate.time_for(each) + delay) * link,
                };
                at = at.max(ahead) + rate.time_for(last) + delay;
            }
            // A last packet shorter than an acknowledgement arrives while the previous one is still
            // being acknowledged.
            let waits = if packets > 1 { 64_u32.saturating_sub(last) } else { 0 };
            let expected = at + rate.time_for(waits) + (rate.time_for(64) + delay) * links;
            assert_eq!(took, expected, "{bytes} bytes over {links} links");
            let path = bounds::Path { rate, delay, hops: links as u32 };
            assert_eq!(bounds::lone_flow(&FRAMES, &path, bytes), expected);
        }
    }
}

/// Hosts on links of negligible serialisation time, and one on a link that takes 1,000 ps per byte.
fn bottleneck(sources: u32) -> Topology {
    let plan = LeafSpine {
        leaves: 1,
        hosts_per_leaf: sources + 1,
        spines: 1,
        links_per_spine: 1,
        host_rate: Rate::from_gbps(800_000),
        fabric_rate: Rate::from_gbps(1),
        delay: Ps(1_000),
    };
    let mut topology = plan.build().unwrap();
    topology.set_rate(Node::Nic(sources), Node::Switch(0), Rate::from_gbps(8)).unwrap();
    topology
}

/// Returns a packet's time on the slow link, and its time from post to delivery without queueing.
fn service() -> (f64, f64) {
    let wire = Rate::from_gbps(8).time_for(1_000 + 62).0 as f64;
    let gap = Rate::from_gbps(8).time_for(20).0 as f64;
    let before = Rate::from_gbps(800_000).time_for(1_000 + 62).0 as f64 + 2_000.0;
    (wire + gap, wire + before)
}

/// Returns the mean wait in units of the service time.
fn mean_wait(simulation: &Simulation) -> f64 {
    let (service, alone) = service();
    let waits =
        simulation.spans().iter().map(|span| (span.delivered - span.posted).0 as f64 - alone);
    waits.sum::<f64>() / simulation.spans().len() as f64 / service
}

/// Poisson arrivals, constant service: the mean wait is rho / 2 (1 - rho) (Pollaczek and
/// Khinchine).
#[test]
fn an_m_d_1_queue_has_its_known_mean_wait() {
    let sources = 200;
    let (service, _) = service();
    for load in [0.3, 0.6, 0.8] {
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let mut at = 0.0;
        let mut draw = || -> Message {
            at += -(1.0 - rng.random::<f64>()).ln() * service / load;
            message(rng.random_range(0..sources), sources, 1_000, Ps(at as u64))
        };
        let messages: Vec<_> = (0..60_000).map(|_| draw()).collect();
        let wait = mean_wait(&run(bottleneck(sources), Workload::from(messages)));
        let known = load / (2.0 * (1.0 - load));
        assert!((wait / known - 1.0).abs() < 0.05, "load {load}: {wait} instead of {known}");
    }
}

/// N periodic sources with random phases, constant service. A packet meets the virtual wait of the
/// other N - 1. Its distribution is known (Roberts and Virtamo 1991, after Eckberg 1979):
///
/// ```text
/// P(V > x) = sum over x < n <= N of
///            C(N, n) ((n - x) / T)^n (1 - (n - x) / T)^(N - n) (T - N + x) / (T - n + x)
/// ```
#[test]
fn an_nd_d_1_queue_has_its_known_mean_wait() {
    let (sources, period) = (20_u32, 25.0);
    let (service, _) = service();
    let mut sum = 0.0;
    let rounds = 1_500;
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let messages = (0..rounds).flat_map(|round| {
        // Rounds are far enough apart to be independent. The first period of two fills the queue.
        let start = f64::from(round) * 10.0 * period * service;
        let phases: Vec<f64> =
            (0..sources).map(|_| rng.random::<f64>() * period * service).collect();
        phases
            .into_iter()
            .zip(0..)
            .flat_map(move |(phase, src)| {
                (0..2).map(move |turn| {
                    let at = start + phase + f64::from(turn) * period * service;
                    message(src, sources, 1_000, Ps(at as u64))
                })
            })
            .collect::<Vec<_>>()
    });
    let messages: Vec<Message> = messages.collect();
    let simulation = run(bottleneck(sources), Workload::from(messages));
    let (_, alone) = self::service();
    for (span, index) in simulation.spans().iter().zip(0..) {
        if index % 2 == 1 {
            sum += (span.delivered - span.posted).0 as f64 - alone;
        }
    }
    let wait = sum / f64::from(rounds * sources) / service;
    let known = nd_d_1_mean_wait(sources - 1, period);
    assert!((wait / known - 1.0).abs() < 0.05, "{wait} instead of {known}");
}

fn nd_d_1_mean_wait(sources: u32, period: f64) -> f64 {
    let count = f64::from(sources);
    let exceeds = |x: f64| -> f64 {
        let first = x.floor() as u32 + 1;
        (first..=sources)
            .map(|n| {
                let (n, choices) = (f64::from(n), binomial(sources, n));
                let share = (n - x) / period;
                let idle = (period - count + x) / (period - n + x);
                choices * share.powf(n) * (1.0 - share).powf(count - n) * idle
            })
            .sum()
    };
    let step = 0.001;
    (0..(count / step) as u32).map(|i| exceeds((f64::from(i) + 0.5) * step) * step).sum()
}

fn binomial(n: u32, k: u32) -> f64 {
    (1..=k).map(|i| f64::from(n - k + i) / f64::from(i)).product()
}
