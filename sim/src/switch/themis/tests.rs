//! Themis on a whole fabric: two hosts, two routes.

use braid_cc::{CcConfig, FixedRate};
use braid_lb::LbPolicy;
use braid_transport::{LossRecovery, QpCounters};

use crate::fabric::{Buffer, NetworkConfig};
use crate::frames::Frames;
use crate::host::{HostConfig, Paths, Recovery};
use crate::simulation::{Change, Plan, Simulation};
use crate::switch::Policy;
use crate::time::{Ps, Rate};
use crate::topology::{LeafSpine, Node, Topology};
use crate::workload::{Groups, ring};

const RATE: Rate = Rate::from_gbps(100);

fn plan() -> LeafSpine {
    LeafSpine {
        leaves: 2,
        hosts_per_leaf: 1,
        spines: 2,
        links_per_spine: 1,
        host_rate: RATE,
        fabric_rate: RATE,
        delay: Ps::from_micros(1),
    }
}

fn fabric() -> Topology {
    plan().build().unwrap()
}

/// Sends 2 MB in each direction with NIC-SR at a constant rate. Returns the counters of the queue
/// pairs, and the number of packets that the network lost.
fn run(policy: Policy, topology: Topology, changes: Vec<(Ps, Change)>) -> (QpCounters, u64) {
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 0 };
    let network = NetworkConfig::plain(frames, Buffer::PerPort { bytes: 4_000_000 }, policy);
    let host = HostConfig {
        lb: LbPolicy::ECMP,
        paths: Paths::Hashed(64),
        health: false,
        recovery: Recovery::Protocol(LossRecovery::NicSr),
        cc: CcConfig::new(FixedRate { bits_per_second: 80_000_000_000, window: 1 << 30 }),
        min_rto: std::time::Duration::from_millis(1),
        ..HostConfig::default()
    };
    let workload = ring(&Groups::all(2).unwrap(), 2_000_000).unwrap();
    let limit = Ps::from_micros(100_000);
    let mut run =
        Simulation::new(Plan { topology, network, host, workload, changes, seed: 1, limit });
    run.run().unwrap();
    (run.hosts.counters(), run.fabric.ledger.losses())
}

/// A fabric with one longer route, so that packets are always reordered.
fn uneven() -> Topology {
    let mut topology = fabric();
    let longer = |cable: &&mut crate::topology::Cable| cable.high == Node::Switch(2);
    topology.cables.iter_mut().filter(longer).for_each(|cable| cable.delay = Ps::from_micros(4));
    topology
}

fn themis(look_back: bool) -> Policy {
    Policy::Themis { ring: 10, look_back, compensate: true }
}

#[test]
fn reordering_alone_causes_no_retransmission() {
    let (counters, lost) = run(themis(true), uneven(), Vec::new());
    assert!(counters.out_of_order > 100, "{counters:?}");
    assert_eq!((lost, counters.retransmitted), (0, 0));
    let (counters, _) = run(Policy::RoundRobin { permute: None }, uneven(), Vec::new());
    assert!(counters.retransmitted > 100, "without Themis: {counters:?}");
}

/// Cuts the link up to a spine for 3 us.
fn gap(topology: &Topology, spine: u32) -> Vec<(Ps, Change)> {
    let leads_there = |cable: &crate::topology::Cable| cable.high == Node::Switch(spine);
    let cable = topology.cables.iter().position(leads_there).unwrap() as u32;
    let cut = |up| Change::Cable { cable, up };
    vec![(Ps::from_micros(50), cut(false)), (Ps::from_micros(53), cut(true))]
}

#[test]
fn a_lost_packet_is_retransmitted_before_a_time_out() {
    let topology = uneven();
    for (look_back, spine) in [(false, 2), (false, 3), (true, 2), (true, 3)] {
        let (counters, _) = run(themis(look_back), topology.clone(), gap(&topology, spine));
        let lost = counters.segments_sent - counters.segments_received;
        assert!(lost > 3, "{lost} packets lost");
        assert!(counters.retransmitted >= lost, "{counters:?}");
        assert_eq!(counters.timeouts, 0, "look back: {look_back}, spine {spine}, {counters:?}");
    }
}

/// A fabric whose third spine has lost a link, while short gaps lose packets on the others.
#[test]
fn themis_does_what_ecmp_does_while_a_link_is_down() {
    let plan = LeafSpine { spines: 3, ..plan() };
    let topology = plan.build().unwrap();
    let third = topology.cables.iter().position(|cable| cable.high == Node::Switch(4)).unwrap();
    let cut = Change::Cable { cable: third as u32, up: false };
    let mut changes = vec![(Ps::ZERO, cut), (Ps::ZERO, Change::Converge)];
    let gaps = [gap(&topology, 2), gap(&topology, 3)];
    for index in 0..2 {
        changes.extend(gaps.iter().map(|gap| gap[index]));
    }
    let (by_ecmp, lost_by_ecmp) = run(Policy::Ecmp, topology.clone(), changes.clone());
    assert!(lost_by_ecmp > 3, "{lost_by_ecmp} packets lost");
    for look_back in [false, true] {
        let by_themis = run(themis(look_back), topology.clone(), changes.clone());
        assert_eq!(by_themis, (by_ecmp, lost_by_ecmp), "look back: {look_back}");
    }
}

/// Packets over spine 3 are faster. They trigger the NACKs for the losses on spine 2, and those
/// NACKs are blocked.
#[test]
fn without_compensation_a_loss_on_the_slower_route_waits_for_a_time_out() {
    let topology = uneven();
    for look_back in [false, true] {
        let policy = Policy::Themis { ring: 10, look_back, compensate: false };
        let (counters, _) = run(policy, topology.clone(), gap(&topology, 2));
        assert!(counters.timeouts > 0, "look back: {look_back}, {counters:?}");
    }
}
