//! Spines of unequal speed, with default options: the path policy uses the capacity of each spine,
//! where equal shares would wait for the slowest.

use braid_cc::{CcConfig, FixedWindow};
use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths};
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node, Topology};
use braid_sim::workload::{Message, Start, Workload, bounds};

const LEAVES: u32 = 2;
/// The rate of the spines that are not slow.
const RATE_GBPS: u64 = 100;

/// A fabric with a host per leaf, whose first spine has a different rate.
fn fabric(spines: u32, first_gbps: u64) -> Topology {
    leaf_spine(spines, Rate::from_gbps(RATE_GBPS), Rate::from_gbps(first_gbps))
}

/// The same with this rate of the others.
fn leaf_spine(spines: u32, rate: Rate, first: Rate) -> Topology {
    let plan = LeafSpine {
        leaves: LEAVES,
        hosts_per_leaf: 1,
        spines,
        links_per_spine: 1,
        host_rate: Rate::from_bps(rate.bps() * u64::from(spines)),
        fabric_rate: rate,
        delay: Ps::from_micros(1),
    };
    let mut topology = plan.build().unwrap();
    for leaf in 0..LEAVES {
        let (leaf, spine) = (Node::Switch(leaf), Node::Switch(LEAVES));
        topology.set_rate(leaf, spine, first).unwrap();
    }
    topology
}

/// Returns the least possible time of one message of 200 MiB over its measured time.
fn share(topology: Topology, lb: LbPolicy, switch: Policy, paths: Paths) -> f64 {
    let cc = CcConfig::new(FixedWindow { window: 1 << 20 });
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    of_hosts(topology, switch, frames, HostConfig { lb, paths, cc, ..HostConfig::default() })
}

/// The same with these hosts.
fn of_hosts(topology: Topology, switch: Policy, frames: Frames, host: HostConfig) -> f64 {
    let plain = NetworkConfig::plain(frames, Buffer::PerPort { bytes: 4_000_000 }, switch);
    let start = Start::At(Ps::ZERO);
    let message = Message { src: 0, dst: 1, bytes: 200 << 20, start, queue: 0, group: 0 };
    let workload = Workload::from(vec![message]);
    let least = bounds::of_workload(&frames, &topology, &workload);
    let mut simulation = Simulation::new(Plan {
        topology,
        network: NetworkConfig { control_first: false, ..plain },
        host,
        workload,
        changes: Vec::new(),
        seed: 1,
        limit: Ps::from_micros(2_000_000),
    });
    simulation.run().unwrap();
    least.as_secs_f64() / simulation.completion_time().as_secs_f64()
}

#[test]
fn each_spine_carries_what_it_can() {
    for (spines, first_gbps) in [(2, 50), (4, 10)] {
        let of = |lb| share(fabric(spines, first_gbps), lb, Policy::Source, Paths::Source);
        let (default, pro) = (of(LbPolicy::default()), of(LbPolicy::PRO));
        assert!(default > 0.95 && pro < 0.7, "{first_gbps} Gb/s: {default}, pro {pro}");
    }
}

/// 64 source ports over four links: some links get more of them than others.
#[test]
fn switches_that_hash_are_evened_out() {
    for (first_gbps, times) in [(100, 1.0), (10, 3.0)] {
        let of = |lb| share(fabric(4, first_gbps), lb, Policy::Ecmp, Paths::Hashed(64));
        let (default, pro) = (of(LbPolicy::default()), of(LbPolicy::PRO));
        assert!(default > times * pro, "{first_gbps} Gb/s: {default}, pro {pro}");
    }
}

/// A path carries several packets in a row, as over UDP sockets, and one spine has a tenth of the
/// rate of the others.
#[test]
fn a_slow_spine_costs_little_with_batches() {
    let frames = Frames { payload: 1412, header: 102, ack: 102, gap: 20 };
    for (switch, ports) in [(Policy::Source, 16), (Policy::Ecmp, 16), (Policy::Ecmp, 64)] {
        let topology = leaf_spine(4, Rate::from_gbps(2), Rate::from_bps(200_000_000));
        let paths = Paths::Hashed(ports);
        let host = HostConfig { paths, cc: "cubic".parse().unwrap(), ..HostConfig::shipped() };
        let share = of_hosts(topology, switch, frames, host);
        assert!(share > 0.97, "{ports} ports: {share}");
    }
}

#[test]
fn equal_spines_are_used_as_pro_does() {
    let of = |lb| share(fabric(4, RATE_GBPS), lb, Policy::Source, Paths::Source);
    assert_eq!(of(LbPolicy::default()), of(LbPolicy::PRO));
}
