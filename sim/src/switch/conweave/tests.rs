use std::time::Duration;

use braid_lb::LbPolicy;

use crate::fabric::{Buffer, NetworkConfig};
use crate::frames::Frames;
use crate::host::{HostConfig, Paths};
use crate::simulation::{Change, Plan, Simulation};
use crate::switch::Policy;
use crate::time::{Ps, Rate};
use crate::topology::{FatTree, LeafSpine, Node, Topology};
use crate::workload::{Groups, Workload, ring};

const RATE: Rate = Rate::from_gbps(100);

fn run(
    topology: Topology,
    workload: Workload,
    policy: Policy,
    changes: Vec<(Ps, Change)>,
    seed: u64,
) -> Simulation {
    let frames = Frames { payload: 1000, header: 0, ack: 64, gap: 0 };
    let network = NetworkConfig::plain(frames, Buffer::PerPort { bytes: 1 << 30 }, policy);
    let host = HostConfig {
        lb: LbPolicy::ECMP,
        paths: Paths::Hashed(256),
        min_rto: Duration::from_millis(5),
        ..HostConfig::default()
    };
    let limit = Ps::from_micros(100_000);
    let plan = Plan { topology, network, host, workload, changes, seed, limit };
    let mut simulation = Simulation::new(plan);
    simulation.run().unwrap();
    simulation
}

/// A fabric with two leaves and two spines, one of them slow.
fn slow_spine() -> Topology {
    let plan = LeafSpine {
        leaves: 2,
        hosts_per_leaf: 2,
        spines: 2,
        links_per_spine: 1,
        host_rate: RATE,
        fabric_rate: RATE,
        delay: Ps::from_micros(1),
    };
    let mut topology = plan.build().unwrap();
    for leaf in 0..2 {
        topology.set_rate(Node::Switch(leaf), Node::Switch(2), Rate::from_gbps(20)).unwrap();
    }
    topology
}

/// A workload with one message from the first interface to the last.
fn alone(hosts: u32, bytes: u64) -> Workload {
    let mut workload = ring(&Groups::new(hosts, vec![vec![0, hosts - 1]]).unwrap(), bytes).unwrap();
    workload.messages.truncate(1);
    workload
}

/// 1 MB takes 85 us over the fast spine and 405 us over the slow one. A flow that begins on the
/// slow spine moves until it is on the fast one. Its packets on the slow spine take 40 us, and the
/// rest waits for them.
#[test]
fn a_flow_leaves_a_slow_path_and_still_arrives_in_order() {
    let (mut hashed, mut moved) = (Vec::new(), Vec::new());
    for seed in 0..8 {
        let run = |policy| run(slow_spine(), alone(4, 1_000_000), policy, Vec::new(), seed);
        hashed.push(run(Policy::Ecmp).completion_time());
        let simulation = run(Policy::ConWeave);
        assert_eq!(simulation.hosts.counters().out_of_order, 0, "seed {seed}");
        moved.push(simulation.completion_time());
    }
    assert!(hashed.iter().any(|time| *time > Ps::from_micros(400)), "{hashed:?}");
    assert!(moved.iter().any(|time| *time > Ps::from_micros(95)), "{moved:?}: no flow had to move");
    assert!(moved.iter().all(|time| *time < Ps::from_micros(350)), "{moved:?}");
}

/// Without trouble, every reply is in time and no flow moves.
#[test]
fn a_lone_flow_stays_where_it_is() {
    let plan = LeafSpine::k_ary(8, RATE, Ps::from_micros(1)).unwrap();
    let simulation =
        run(plan.build().unwrap(), alone(32, 1_000_000), Policy::ConWeave, Vec::new(), 1);
    let topology = &simulation.fabric.topology;
    let uplinks = topology.uplinks(0);
    let busy = uplinks.filter(|port| simulation.fabric.ports[port.index()].sent.packets > 0);
    assert_eq!(busy.count(), 1);
}

#[test]
fn in_three_tiers_the_path_decides_at_both() {
    let plan = FatTree::k_ary(4, RATE, Ps::from_micros(1)).unwrap();
    let pairs = (0..8).map(|low| vec![low, low + 8]).collect();
    let workload = ring(&Groups::new(16, pairs).unwrap(), 1_000_000).unwrap();
    let simulation = run(plan.build().unwrap(), workload, Policy::ConWeave, Vec::new(), 3);
    assert_eq!(simulation.hosts.counters().out_of_order, 0);
}

/// Both routes work again after 60 us. A tail that was lost meanwhile delays the flow by no more
/// than the grace time.
#[test]
fn a_lost_tail_delays_and_does_not_block() {
    let topology = slow_spine();
    let slow = (0..topology.cables.len() as u32)
        .filter(|cable| topology.cables[*cable as usize].high == Node::Switch(2));
    let changes: Vec<(Ps, Change)> = slow
        .flat_map(|cable| {
            let change = |up| Change::Cable { cable, up };
            [(Ps::from_micros(12), change(false)), (Ps::from_micros(60), change(true))]
        })
        .collect();
    let mut lost = 0;
    for seed in 0..8 {
        let run =
            run(topology.clone(), alone(4, 1_000_000), Policy::ConWeave, changes.clone(), seed);
        lost += run.fabric.ledger.losses();
        assert!(
            run.completion_time() < Ps::from_micros(20_000),
            "seed {seed}: {}",
            run.completion_time()
        );
    }
    assert!(lost > 0, "nothing was lost: the test tests nothing");
}
