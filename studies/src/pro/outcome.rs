//! The measurements of a run.

use super::setup::ideal;
use braid_sim::probe::{self, Probe, Quantity};
use braid_sim::simulation::{Plan, RunError, Simulation};
use braid_sim::time::Ps;
use braid_sim::topology::{PortId, Tier, Topology};

/// Interval of queue readings (PRO, section VI-A).
const QUEUE_INTERVAL: Ps = Ps::from_nanos(100);
/// Interval of load readings.
const LOAD_INTERVAL: Ps = Ps::from_micros(10);
/// The percentiles of the out-of-order degree.
pub(super) const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// The measurements of a run.
#[derive(Clone, Debug)]
pub(super) struct ProOutcome {
    /// The last sender's completion over the ideal.
    pub(super) slowdown: f64,
    /// Congestion marks of ToR switches, including those on links to hosts.
    pub(super) marks_at_tors: u64,
    /// Congestion marks of aggregation switches.
    pub(super) marks_at_aggs: u64,
    /// Congestion marks on links to hosts.
    pub(super) marks_at_last_hops: u64,
    /// Number of hosts whose link set any mark.
    pub(super) marked_hosts: usize,
    /// Longest queue of any uplink of a ToR switch, in packets, including control.
    pub(super) uplink_queue: u32,
    /// Longest queue of any downlink of an aggregation switch, in packets, including control.
    pub(super) downlink_queue: u32,
    /// Out-of-order degree at [`PERCENTILES`], in packets.
    pub(super) disorder: [u64; PERCENTILES.len()],
    /// Number of packets retransmitted.
    pub(super) resent: u64,
    /// Number of packets retransmitted although they had arrived or were about to.
    pub(super) resent_needlessly: u64,
    pub(super) timeouts: u64,
    pub(super) lost: u64,
    /// The balance, if requested.
    pub(super) balance: Option<Balance>,
}

/// The balance of equal links: the uplinks of a ToR switch, or the downlinks that lead to one. It
/// is read until the ideal end of the run, because later some links of slow schemes have nothing to
/// carry.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    /// Longest queue minus mean queue of equal links, in bytes.
    pub(super) uplink_queues: Distribution,
    pub(super) downlink_queues: Distribution,
    /// Highest load over mean load of equal links.
    pub(super) uplink_loads: Distribution,
    pub(super) downlink_loads: Distribution,
}

/// Sorted readings.
#[derive(Clone, Debug)]
pub(super) struct Distribution(Vec<f32>);

impl Distribution {
    fn of(mut readings: Vec<f32>) -> Distribution {
        readings.sort_unstable_by(f32::total_cmp);
        Distribution(readings)
    }

    /// Returns the reading that `percent` of all do not exceed; 0 if there are none.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().map_or(0.0, f64::from)
    }
}

/// Runs a plan.
///
/// # Errors
/// The run fails.
pub(super) fn measure(plan: Plan, with_balance: bool) -> Result<ProOutcome, RunError> {
    let least = ideal(&plan.topology, &plan.workload);
    let (up, down) = (uplinks_by_tor(&plan.topology), downlinks_by_tor(&plan.topology));
    let mut simulation = Simulation::new(plan);
    let balance = match with_balance {
        true => Some(run_and_read(&mut simulation, up, down, least)?),
        false => {
            simulation.run()?;
            None
        }
    };
    Ok(ProOutcome::of(&simulation, least, balance))
}

impl ProOutcome {
    fn of(simulation: &Simulation, least: Ps, balance: Option<Balance>) -> ProOutcome {
        let fabric = &simulation.fabric;
        let layer = |from: Tier, to: Tier| {
            let ports = (0..).map(PortId).zip(&fabric.ports);
            ports.filter(move |(id, _)| {
                let layer = fabric.topology.layer(*id);
                (layer.from, layer.to) == (from, to)
            })
        };
        let marks = |from, to| layer(from, to).map(|(_, port)| port.marked).sum::<u64>();
        let longest =
            |from, to| layer(from, to).map(|(_, port)| port.max_packets).max().unwrap_or(0);
        let at_last_hops = marks(Tier::Edge, Tier::Host);
        let counters = simulation.hosts.counters();
        let in_order = counters.segments_received.saturating_sub(counters.out_of_order);
        let degrees = simulation.hosts.ooo_degrees();
        ProOutcome {
            slowdown: simulation.completion_time().0 as f64 / least.0 as f64,
            marks_at_tors: marks(Tier::Edge, Tier::Agg) + at_last_hops,
            marks_at_aggs: marks(Tier::Agg, Tier::Edge),
            marks_at_last_hops: at_last_hops,
            marked_hosts: layer(Tier::Edge, Tier::Host).filter(|(_, port)| port.marked > 0).count(),
            uplink_queue: longest(Tier::Edge, Tier::Agg),
            downlink_queue: longest(Tier::Agg, Tier::Edge),
            disorder: PERCENTILES.map(|percent| degrees.quantile(percent / 100.0, in_order)),
            resent: counters.retransmitted,
            resent_needlessly: counters.spurious,
            timeouts: counters.timeouts,
            lost: fabric.ledger.losses(),
            balance,
        }
    }
}

fn run_and_read(
    simulation: &mut Simulation,
    up: Vec<Vec<PortId>>,
    down: Vec<Vec<PortId>>,
    until: Ps,
) -> Result<Balance, RunError> {
    let mut readings: [Vec<f32>; 4] = Default::default();
    let [up_queues, down_queues, up_loads, down_loads] = &mut readings;
    let mut probes = [
        queue_imbalance(up.clone(), until, up_queues),
        queue_imbalance(down.clone(), until, down_queues),
        load_imbalance(up, until, up_loads),
        load_imbalance(down, until, down_loads),
    ];
    probe::run(simulation, &mut probes)?;
    drop(probes);
    let [uplink_queues, downlink_queues, uplink_loads, downlink_loads] =
        readings.map(Distribution::of);
    Ok(Balance { uplink_queues, downlink_queues, uplink_loads, downlink_loads })
}

fn queue_imbalance(groups: Vec<Vec<PortId>>, until: Ps, into: &mut Vec<f32>) -> Probe<'_> {
    Probe::new(QUEUE_INTERVAL, Quantity::Queued, groups, move |at, _, queued| {
        if at <= until {
            let (most, mean) = most_and_mean(queued);
            into.push((most - mean) as f32);
        }
    })
}

/// Idle links have no balance.
fn load_imbalance(groups: Vec<Vec<PortId>>, until: Ps, into: &mut Vec<f32>) -> Probe<'_> {
    Probe::new(LOAD_INTERVAL, Quantity::Carried, groups, move |at, _, carried| {
        let (most, mean) = most_and_mean(carried);
        if at <= until && most > 0.0 {
            into.push((most / mean) as f32);
        }
    })
}

fn most_and_mean(values: &[u64]) -> (f64, f64) {
    let most = values.iter().copied().max().unwrap_or(0);
    (most as f64, values.iter().sum::<u64>() as f64 / values.len() as f64)
}

/// Returns the uplinks of each ToR switch.
pub(super) fn uplinks_by_tor(topology: &Topology) -> Vec<Vec<PortId>> {
    let tors = topology.switches.iter().zip(0..).filter(|(switch, _)| switch.tier == Tier::Edge);
    tors.map(|(_, tor)| topology.uplinks(tor).collect()).collect()
}

/// Returns the downlinks to each ToR switch.
pub(super) fn downlinks_by_tor(topology: &Topology) -> Vec<Vec<PortId>> {
    let reversed = |ports: Vec<PortId>| ports.into_iter().map(PortId::reverse).collect();
    uplinks_by_tor(topology).into_iter().map(reversed).collect()
}

#[cfg(test)]
mod tests {
    use super::super::setup::paper_fabric;
    use super::*;
    use braid_sim::topology::Node;

    #[test]
    fn percentiles_are_readings() {
        let readings = Distribution::of((1..=200).rev().map(|value| value as f32).collect());
        assert_eq!(
            [0.0, 1.0, 50.0, 99.0, 99.9, 100.0].map(|percent| readings.percentile(percent)),
            [1.0, 2.0, 100.0, 198.0, 200.0, 200.0]
        );
        assert_eq!(Distribution::of(Vec::new()).percentile(99.0), 0.0);
    }

    /// 16 ToR switches with 8 links to as many aggregation switches.
    #[test]
    fn equal_links_are_grouped_by_tor_in_both_directions() {
        let topology = paper_fabric();
        let (up, down) = (uplinks_by_tor(&topology), downlinks_by_tor(&topology));
        assert_eq!((up.len(), down.len()), (16, 16));
        for (tor, (up, down)) in (0..).zip(up.iter().zip(&down)) {
            assert_eq!((up.len(), down.len()), (8, 8));
            assert!(up.iter().all(|port| topology.ends(*port).0 == Node::Switch(tor)));
            assert!(down.iter().all(|port| topology.ends(*port).1 == Node::Switch(tor)));
        }
    }
}
