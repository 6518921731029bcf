//! Random link failures, and the rate that the remaining links allow to hosts (appendix A).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use braid_sim::simulation::Change;
use braid_sim::time::Ps;
use braid_sim::topology::{Node, Routes, Topology};
use braid_sim::workload::Workload;

/// The extent of failures, and the time at which routing learns of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Failures {
    /// Probability that a cable between switches fails before the start.
    pub(super) rate: f64,
    /// Round trips from the start until routing converges: the paper's G. `None`: never.
    pub(super) converge: Option<f64>,
}

impl Failures {
    pub(super) const NONE: Failures = Failures { rate: 0.0, converge: None };
}

/// The failed cables and their effect.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Damage {
    pub(super) cables: Vec<u32>,
    /// Share of their link's rate that hosts may use: rho_max / B for all flows of a host together.
    pub(super) share: f64,
}

/// Draws failures until there are some, unless the rate is 0, and all nodes can reach each other.
pub(super) fn draw(
    topology: &Topology,
    workload: &Workload,
    failures: &Failures,
    seed: u64,
) -> Damage {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0xFA11);
    if failures.rate == 0.0 {
        return Damage { cables: Vec::new(), share: 1.0 };
    }
    loop {
        let fails = |cable: &u32| {
            let low = topology.cables[*cable as usize].low;
            matches!(low, Node::Switch(_)) && rng.random_bool(failures.rate)
        };
        let cables: Vec<u32> = (0..topology.cables.len() as u32).filter(fails).collect();
        if cables.is_empty() {
            continue;
        }
        let routes = Routes::new(topology, |port| !cables.contains(&(port.cable() as u32)));
        if let Some(share) = share(topology, &routes, workload) {
            return Damage { cables, share };
        }
    }
}

impl Damage {
    pub(super) fn changes(&self, failures: &Failures, round_trip: Ps) -> Vec<(Ps, Change)> {
        let cut = |cable: &u32| (Ps::ZERO, Change::Cable { cable: *cable, up: false });
        let converge = failures
            .converge
            .filter(|_| !self.cables.is_empty())
            .map(|trips| (Ps((round_trip.0 as f64 * trips) as u64), Change::Converge));
        self.cables.iter().map(cut).chain(converge).collect()
    }
}

/// Returns the rate that all hosts can send at if each flow is split evenly over its paths. `None`:
/// a node is unreachable.
fn share(topology: &Topology, routes: &Routes, workload: &Workload) -> Option<f64> {
    let mut flows_of = vec![0.0_f64; topology.nics.len()];
    workload.messages.iter().for_each(|message| flows_of[message.src as usize] += 1.0);
    let mut load = vec![0.0; 2 * topology.cables.len()];
    for message in &workload.messages {
        let edge = topology.nics[message.src as usize].edge;
        // All flows of a host share its link.
        let flow = 1.0 / flows_of[message.src as usize];
        spread(topology, routes, edge, message.dst, flow, &mut load)?;
    }
    let most = load.into_iter().fold(0.0, f64::max);
    // A host's own link is fully loaded, except for rounding.
    Some(if most < 1.0 + 1e-9 { 1.0 } else { 1.0 / most })
}

/// Adds the load of a flow to all links from a switch on.
fn spread(
    topology: &Topology,
    routes: &Routes,
    switch: u32,
    dst: u32,
    flow: f64,
    load: &mut [f64],
) -> Option<()> {
    let ports = routes.towards(switch, dst);
    if ports.is_empty() {
        return None;
    }
    let part = flow / ports.len() as f64;
    for port in ports {
        load[port.index()] += part;
        if let Node::Switch(next) = topology.ends(*port).1 {
            spread(topology, routes, next, dst, part, load)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_sim::time::Rate;
    use braid_sim::topology::FatTree;
    use braid_sim::workload::{Groups, StartOrder, all_to_all};

    fn fat_tree() -> Topology {
        FatTree::k_ary(4, Rate::from_gbps(800), Ps::ZERO).unwrap().build().unwrap()
    }

    /// If an edge loses one of two uplinks, its two hosts share the other, and so do the senders to
    /// them.
    #[test]
    fn one_uplink_of_two_leaves_half_of_the_rate() {
        let topology = fat_tree();
        let all = all_to_all(&Groups::all(16).unwrap(), 1, StartOrder::Rotated).unwrap();
        let uplink = (0..).find(|cable| topology.cables[*cable].low == Node::Switch(0)).unwrap();
        let routes = Routes::new(&topology, |port| port.cable() != uplink);
        let share = share(&topology, &routes, &all).unwrap();
        // Each host sends 14 of its 15 flows beyond its edge.
        assert!((share - 15.0 / 28.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn without_failures_hosts_send_at_line_rate() {
        let topology = fat_tree();
        let all = all_to_all(&Groups::all(16).unwrap(), 1, StartOrder::Rotated).unwrap();
        let routes = Routes::new(&topology, |_| true);
        assert_eq!(share(&topology, &routes, &all), Some(1.0));
        let damage = draw(&topology, &all, &Failures::NONE, 3);
        assert_eq!(damage, Damage { cables: vec![], share: 1.0 });
    }

    #[test]
    fn only_cables_between_switches_fail_and_the_seed_decides_which() {
        let topology = fat_tree();
        let all = all_to_all(&Groups::all(16).unwrap(), 1, StartOrder::Rotated).unwrap();
        let failures = Failures { rate: 0.2, converge: Some(2.0) };
        let damage = draw(&topology, &all, &failures, 3);
        assert_eq!(damage, draw(&topology, &all, &failures, 3));
        assert_ne!(damage.cables, draw(&topology, &all, &failures, 4).cables);
        assert!(damage.cables.iter().all(|cable| *cable >= 16) && damage.share < 1.0);
        let changes = damage.changes(&failures, Ps(100));
        assert_eq!(changes.last(), Some(&(Ps(200), Change::Converge)));
        assert_eq!(changes.len(), damage.cables.len() + 1);
    }
}
