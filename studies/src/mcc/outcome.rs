//! The measurements of a run.

use braid_sim::probe::{self, Probe, Quantity};
use braid_sim::simulation::Simulation;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::PortId;
use braid_sim::workload::bounds::of_workload;

use super::setup::{ACK, MccSetup, is_sender, uplinks};

/// The interval of the link readings.
pub(super) const INTERVAL: Ps = Ps::from_micros(100);

/// The measurements of a run.
#[derive(Clone, Debug)]
pub(super) struct MccOutcome {
    /// Time until the last sender has its last acknowledgement.
    pub(super) completion_ms: f64,
    /// Lower bound of that time, given the fabric's capacity.
    pub(super) bound_ms: f64,
    /// The uplinks of leaf 0, l1 first.
    pub(super) links: Vec<Link>,
    /// Number of whole intervals until the first sender of leaf 0 finished, in which all of them
    /// sent.
    pub(super) busy: usize,
    /// Number of pause frames.
    pub(super) pauses: u64,
    pub(super) lost: u64,
}

/// The readings of an uplink, by interval.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) readings: Vec<Reading>,
}

/// A reading of an uplink over an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reading {
    /// Bits carried over capacity.
    pub(super) utilisation: f64,
    /// Number of data packets.
    pub(super) packets: u64,
    /// Number of marked data packets.
    pub(super) marked: u64,
}

impl MccOutcome {
    /// Returns the bound over the completion time: throughput over capacity.
    pub(super) fn throughput(&self) -> f64 {
        self.bound_ms / self.completion_ms
    }

    /// Returns the mean utilisation of an uplink while all senders send; 0 is l1.
    pub(super) fn utilisation(&self, link: usize) -> f64 {
        mean_utilisation(self.busy_readings(link))
    }

    /// Returns the readings while all senders send.
    pub(super) fn busy_readings(&self, link: usize) -> &[Reading] {
        let readings = &self.links[link].readings;
        &readings[..self.busy.min(readings.len())]
    }

    /// Returns the number of marks that an uplink set.
    pub(super) fn marks(&self, link: usize) -> u64 {
        self.links[link].readings.iter().map(|reading| reading.marked).sum()
    }
}

pub(super) fn mean_utilisation(readings: &[Reading]) -> f64 {
    let sum: f64 = readings.iter().map(|reading| reading.utilisation).sum();
    sum / readings.len().max(1) as f64
}

/// Returns the share of marked packets among the data packets.
pub(super) fn mark_rate(readings: &[Reading]) -> f64 {
    let sum = |of: fn(&Reading) -> u64| readings.iter().map(of).sum::<u64>() as f64;
    sum(|reading| reading.marked) / sum(|reading| reading.packets).max(1.0)
}

/// Runs the set-up.
///
/// # Panics
/// Panics if the run fails.
pub(super) fn measure(setup: &MccSetup, seed: u64) -> MccOutcome {
    let plan = setup.plan(seed);
    let frames = plan.network.frames;
    let ports = uplinks(&plan.topology);
    let rates: Vec<Rate> = ports.iter().map(|port| plan.topology.rate(*port)).collect();
    let bound = of_workload(&frames, &plan.topology, &plan.workload);
    let mut run = Simulation::new(plan);
    let counts = read(&mut run, &ports)
        .unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", setup.scheme.name));
    let links = counts.into_iter().zip(rates).map(|(counts, rate)| Link {
        readings: counts.iter().map(|count| count.reading(frames.full(), rate)).collect(),
    });
    let sent = run.workload().messages.iter().zip(run.spans());
    let sent = sent.filter(|(message, _)| is_sender(message.src));
    let first_done = sent.map(|(_, span)| span.delivered).min().unwrap_or(Ps::ZERO);
    MccOutcome {
        completion_ms: run.completion_time().as_micros_f64() / 1e3,
        bound_ms: bound.as_micros_f64() / 1e3,
        links: links.collect(),
        busy: (first_done.0 / INTERVAL.0) as usize,
        pauses: run.fabric.ledger.pauses,
        lost: run.fabric.ledger.losses(),
    }
}

/// The counts of the probes in one interval.
#[derive(Clone, Copy, Default)]
struct Counts {
    carried: u64,
    packets: u64,
    marked: u64,
}

impl Counts {
    /// Converts the counts. Acknowledgements of the other direction count as load, but are never
    /// marked.
    fn reading(self, full: u32, rate: Rate) -> Reading {
        let (full, ack) = (u64::from(full), u64::from(ACK));
        let data = self.carried.saturating_sub(ack * self.packets) as f64 / (full - ack) as f64;
        let most = rate.bps() as f64 / 8.0 * (INTERVAL.as_micros_f64() / 1e6);
        Reading {
            utilisation: self.carried as f64 / most,
            packets: data.round() as u64,
            marked: self.marked,
        }
    }
}

/// Runs to the end. Returns the readings of each port, by interval.
fn read(
    run: &mut Simulation,
    ports: &[PortId],
) -> Result<Vec<Vec<Counts>>, braid_sim::simulation::RunError> {
    let groups: Vec<Vec<PortId>> = ports.iter().map(|port| vec![*port]).collect();
    let mut seen: [Vec<Vec<u64>>; 3] = std::array::from_fn(|_| vec![Vec::new(); ports.len()]);
    let quantities = [Quantity::Carried, Quantity::Packets, Quantity::Marked];
    let mut probes: Vec<Probe<'_>> = quantities
        .into_iter()
        .zip(&mut seen)
        .map(|(quantity, seen)| {
            let reader = |_, link: usize, new: &[u64]| seen[link].push(new[0]);
            Probe::new(INTERVAL, quantity, groups.clone(), reader)
        })
        .collect();
    probe::run(run, &mut probes)?;
    drop(probes);
    let [carried, packets, marked] = seen;
    let links = carried.iter().zip(&packets).zip(&marked);
    Ok(links
        .map(|((carried, packets), marked)| {
            let intervals = carried.iter().zip(packets).zip(marked);
            intervals
                .map(|((carried, packets), marked)| Counts {
                    carried: *carried,
                    packets: *packets,
                    marked: *marked,
                })
                .collect()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::setup::{MccScheme, Thresholds};
    use super::*;

    /// 1 MB from each of four servers: 976 full packets and a shorter one, over both uplinks
    /// together.
    #[test]
    fn all_packets_are_seen_and_marks_are_counted_where_they_are_set() {
        let marking = Thresholds { low: 40_000, high: 40_000, by_speed: true };
        let setup = MccSetup { marking, ..MccSetup::new(MccScheme::PAUSE, 4_000_000) };
        let outcome = measure(&setup, 1);
        let all = |link: usize| -> u64 {
            outcome.links[link].readings.iter().map(|reading| reading.packets).sum()
        };
        let packets = 4 * 4_000_000_u64.div_ceil(4096);
        let seen = all(0) + all(1);
        assert!(seen <= packets && seen > packets * 9 / 10, "{seen} of {packets}");
        assert!(outcome.marks(0) > 0 && outcome.marks(1) > 0);
        assert!(outcome.marks(0) <= all(0) && outcome.marks(1) <= all(1));
        assert!(outcome.utilisation(0) > 0.9, "{}", outcome.utilisation(0));
        assert!(outcome.throughput() <= 1.0 && outcome.lost == 0);
    }
}
