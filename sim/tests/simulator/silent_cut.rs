//! The time until goodput is back after one of four routes silently drops everything.
//!
//! The target is 0.9 of what the sender can have without that route. This is its goodput before the
//! cut, or its goodput in a run in which the route never works, if that is less. Goodput is back at
//! the first instant from which every interval of [`SPAN_MS`] reaches the target. So a later dip
//! counts.

use std::time::Duration;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths};
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node, Topology};
use braid_sim::workload::{Message, Start, Workload};

/// The rate of a route, in Gb/s.
const RATE_GBPS: u64 = 2;
const ROUTES: u32 = 4;
const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
/// The packets of UDP sockets with an MTU of 1500.
const UDP_FRAMES: Frames = Frames { payload: 1412, header: 102, ack: 102, gap: 20 };
/// The shortest time-out, its default.
const MIN_RTO: Duration = Duration::from_millis(4);
/// The limit where the round trip is 1 ms, in milliseconds.
const LIMIT_MS: f64 = 60.0;
const LONG_US: u64 = 1000;
const SHORT_US: u64 = 20;
const CUT_MS: usize = 60;
const END_MS: usize = 200;
const SPAN_MS: usize = 20;
/// Goodput is read so many times per millisecond.
const READINGS: usize = 10;

struct Case {
    cc: &'static str,
    ports: u16,
    switch: Policy,
    round_trip_us: u64,
    seed: u64,
    /// The path policy, if paths carry the batches of UDP sockets. `None`: the default policy picks
    /// a path for each packet.
    batches: Option<LbPolicy>,
}

/// The readings of a run: bytes received so far.
struct Readings {
    bytes: Vec<u64>,
    /// The time-out just before the cut.
    rto: Duration,
}

impl Readings {
    /// Returns the mean bytes per reading between two readings.
    fn mean(&self, from: usize, to: usize) -> f64 {
        (self.bytes[to] - self.bytes[from]) as f64 / (to - from) as f64
    }
}

struct Recovery {
    ms: f64,
    rto_ms: f64,
}

impl Case {
    fn topology(&self) -> Topology {
        let plan = LeafSpine {
            leaves: 2,
            hosts_per_leaf: 1,
            spines: ROUTES,
            links_per_spine: 1,
            host_rate: Rate::from_gbps(2 * RATE_GBPS * u64::from(ROUTES)),
            fabric_rate: Rate::from_gbps(RATE_GBPS),
            // A round trip crosses eight links.
            delay: Ps::from_nanos(self.round_trip_us * 1000 / 8),
        };
        plan.build().unwrap()
    }

    /// Runs with a route that works until `cut_ms`.
    fn run(&self, cut_ms: usize) -> Readings {
        let at = |reading: usize| Ps::from_micros((1000 * reading / READINGS) as u64);
        let topology = self.topology();
        let spine = Node::Switch(2);
        let cables = topology.cables.iter().zip(0_u32..);
        let cut = cables.filter(|(cable, _)| cable.low == spine || cable.high == spine);
        let changes =
            cut.map(|(_, cable)| (at(cut_ms * READINGS), Change::Cable { cable, up: false }));
        let changes = changes.collect();
        let buffer = Buffer::PerPort { bytes: 8_000_000 };
        let start = Start::At(Ps::ZERO);
        let message = Message { src: 0, dst: 1, bytes: 300_000_000, start, queue: 0, group: 0 };
        let frames = if self.batches.is_some() { UDP_FRAMES } else { FRAMES };
        let plain = NetworkConfig::plain(frames, buffer, self.switch.clone());
        let host = match self.batches {
            Some(lb) => HostConfig { lb, ..HostConfig::shipped() },
            None => HostConfig::default(),
        };
        let mut simulation = Simulation::new(Plan {
            topology,
            network: NetworkConfig { control_first: false, ..plain },
            host: HostConfig {
                paths: Paths::Hashed(self.ports),
                cc: self.cc.parse::<CcConfig>().unwrap(),
                min_rto: MIN_RTO,
                max_rto: Duration::from_millis(100),
                ..host
            },
            workload: Workload::from(vec![message]),
            changes,
            seed: self.seed,
            limit: at(2 * END_MS * READINGS),
        });
        let (mut bytes, mut rto) = (Vec::new(), Duration::ZERO);
        while bytes.len() <= END_MS * READINGS {
            if simulation.events.now() < at(cut_ms * READINGS) {
                rto = simulation.hosts.sender_rto(0);
            }
            simulation.step().unwrap();
            while simulation.events.now() >= at(bytes.len()) {
                bytes.push(simulation.hosts.nic_loads().nth(1).unwrap().received);
            }
        }
        Readings { bytes, rto }
    }

    fn recovery(&self) -> Recovery {
        let (cut, end, span) = (CUT_MS * READINGS, END_MS * READINGS, SPAN_MS * READINGS);
        let without = self.run(0).mean(end / 2, end);
        let run = self.run(CUT_MS);
        let before = run.mean(cut / 2, cut);
        assert!(without > 0.4 * before, "{self}: {without} bytes without the route, {before} with");
        let target = 0.9 * before.min(without);
        let low = (cut..end - span).rfind(|from| run.mean(*from, from + span) < target);
        let back = low.map_or(cut, |last| last + 1);
        let ms = (back - cut) as f64 / READINGS as f64;
        Recovery { ms, rto_ms: run.rto.as_secs_f64() * 1e3 }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { cc, ports, round_trip_us, seed, .. } = self;
        let switch = if self.switch == Policy::Ecmp { "hashed" } else { "by number" };
        let lb = self.batches.map_or("packets".to_owned(), |lb| format!("batches of {lb}"));
        write!(f, "{cc}, {lb}, {ports} ports {switch}, ")?;
        write!(f, "round trip {round_trip_us} us, seed {seed}")
    }
}

/// Prints the recovery. Fails if it takes too long.
fn check(case: &Case) {
    let Recovery { ms, rto_ms } = case.recovery();
    println!("{case}: back after {ms:.1} ms, time-out {rto_ms:.1} ms");
    let limit = if case.round_trip_us == LONG_US { LIMIT_MS } else { 3.0 * rto_ms };
    // The time is known to one reading.
    let at_least = ms - 1.0 / READINGS as f64;
    assert!(at_least <= limit, "{case}: {ms} ms, and at most {limit} are allowed");
}

/// Windows from four packets to 4 MiB. Hashing spreads ports unevenly, so that with the largest one
/// queues of tens of milliseconds build up.
const FIXED: [&str; 4] = ["fixed:16632", "fixed:64K", "fixed:1M", "fixed:4M"];
const CONTROLLED: [&str; 5] =
    ["swift:max=16632", "swift", "cubic:max=16632", "cubic:max=64K", "cubic:max=1M"];

#[test]
fn goodput_is_back_soon_whatever_the_window_and_the_number_of_ports() {
    for cc in FIXED.into_iter().chain(CONTROLLED) {
        for round_trip_us in [SHORT_US, LONG_US] {
            for ports in [4, 16, 64, 256] {
                let switch = Policy::Source;
                check(&Case { cc, ports, switch, round_trip_us, seed: 1, batches: None });
            }
        }
    }
}

#[test]
fn goodput_is_back_soon_where_switches_hash() {
    for cc in &FIXED[..3] {
        for (round_trip_us, seed) in [(SHORT_US, 1), (SHORT_US, 2), (LONG_US, 3)] {
            for ports in [16, 64, 256] {
                check(&Case {
                    cc,
                    ports,
                    switch: Policy::Ecmp,
                    round_trip_us,
                    seed,
                    batches: None,
                });
            }
        }
    }
}

/// Windows with packets of UDP sockets, from four packets on.
const UDP_FIXED: [&str; 4] = ["fixed:6000", "fixed:64K", "fixed:1M", "fixed:4M"];

/// A path carries several packets in a row. The retransmissions of a time-out must not follow the
/// last ones on a path that fails, and packets on such paths must not fill the window for long.
#[test]
fn goodput_is_back_soon_with_batches() {
    let (switch, round_trip_us) = (Policy::Source, SHORT_US);
    let check = |cc, ports, seed, lb| {
        let (switch, batches) = (switch.clone(), Some(lb));
        check(&Case { cc, ports, switch, round_trip_us, seed, batches });
    };
    for cc in UDP_FIXED {
        for seed in [1, 2] {
            [4, 16, 64, 256].into_iter().for_each(|ports| check(cc, ports, seed, LbPolicy::PRO));
            [16, 64].into_iter().for_each(|ports| check(cc, ports, seed, LbPolicy::ADAPTIVE));
        }
    }
}
