//! Direct placement: late packets must not be written into a message that is complete.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Recovery};
use braid_sim::simulation::{Change, Plan, RunError, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Topology};
use braid_sim::workload::{Message, Start, Workload};
use braid_transport::LossRecovery;

const SPINES: u32 = 4;
/// Their cables come first.
const HOSTS: u32 = 4;

fn topology() -> Topology {
    let rate = Rate::from_gbps(100);
    let plan = LeafSpine {
        leaves: 2,
        hosts_per_leaf: HOSTS / 2,
        spines: SPINES,
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: Ps::from_nanos(500),
    };
    plan.build().unwrap()
}

/// Messages one after the other between all pairs of hosts, over the two leaves.
fn workload() -> Workload {
    let message = |number: u32| Message {
        src: number % 2,
        dst: 2 + number / 2 % 2,
        bytes: 100_000,
        start: Start::At(Ps::from_micros(u64::from(number) * 4)),
        queue: 0,
        group: 0,
    };
    Workload::from((0..400).map(message).collect::<Vec<_>>())
}

/// A set-up in which every slightly late packet is retransmitted.
fn hasty(policy: Policy, changes: Vec<(Ps, Change)>, direct: bool) -> Simulation {
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    let network = NetworkConfig::plain(frames, Buffer::PerPort { bytes: 400_000 }, policy);
    let host = HostConfig {
        lb: LbPolicy::ROUND_ROBIN,
        recovery: Recovery::Protocol(LossRecovery::Sack),
        reorder_threshold: 3,
        min_rto: Duration::from_micros(80),
        direct,
        ..HostConfig::default()
    };
    let (seed, limit) = (1, Ps::from_micros(1_000_000));
    let workload = workload();
    Simulation::new(Plan { topology: topology(), network, host, workload, changes, seed, limit })
}

/// Slows the cables of one spine.
fn slowed(gbps: u64) -> Vec<(Ps, Change)> {
    let slow = |cable: u32| {
        Change::speed_of_cable(cable, Rate::from_gbps(gbps)).map(|change| (Ps::ZERO, change))
    };
    let cables = topology().cables.len() as u32;
    (HOSTS..cables).step_by(SPINES as usize).flat_map(slow).collect()
}

/// Packets over the slow spine are overtaken, and arrive all the same.
fn over_slow_links(direct: bool) -> Simulation {
    hasty(Policy::Source, slowed(5), direct)
}

/// Packets of all paths are overtaken, because switches choose random routes.
fn over_random_routes(direct: bool) -> Simulation {
    hasty(Policy::Random, slowed(20), direct)
}

const LATE: &str = "after its completion";

/// Returns the message of the oracle, if it fires.
fn breach(simulation: &mut Simulation) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    let panic = run.map(|result: Result<(), RunError>| result.expect("everything is delivered"));
    panic.err().map(|panic| panic.downcast_ref::<String>().expect("a message").clone())
}

#[test]
fn fences_keep_late_originals_out() {
    for build in [over_slow_links, over_random_routes] {
        let mut simulation = build(true);
        assert_eq!(breach(&mut simulation), None);
        assert!(simulation.hosts.counters().retransmitted > 0);
        assert_eq!(simulation.unfinished(), 0);
    }
}

#[test]
fn without_fences_the_oracle_finds_late_originals() {
    for build in [over_slow_links, over_random_routes] {
        let mut simulation = build(true);
        simulation.hosts.ignore_closing();
        let breach = breach(&mut simulation).expect("a late original");
        assert!(breach.starts_with("message ") && breach.contains(LATE), "{breach}");
    }
}

/// Staged packets may be arbitrarily late.
#[test]
fn fences_mean_nothing_where_nothing_is_placed_directly() {
    let mut simulation = over_slow_links(false);
    simulation.hosts.ignore_closing();
    assert_eq!(breach(&mut simulation), None);
}
