//! A comparison as a table for people and as JSON for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use braid_lab::median;
use serde::Serialize;

use super::{Interleaved, Round};
use crate::peer::Metrics;
use crate::peer::machine::{MachineInfo, MachineState};

/// A comparison, ready to print (`Display`) or to serialise.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: MachineInfo,
    /// The contestant that all ratios refer to.
    reference: String,
    summary: Vec<Summary>,
    rounds: Vec<RoundReport>,
}

/// One figure of one contestant over all rounds; the unit is in the metric's name.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) metric: &'static str,
    pub(crate) contestant: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Median over the rounds of this contestant's figure over the reference's in the same round.
    /// `None`: the reference has no such figure, or only zeros.
    pub(crate) ratio_to_reference: Option<f64>,
}

/// One round in the JSON.
#[derive(Debug, Serialize)]
struct RoundReport {
    machine_before: MachineState,
    machine_after: MachineState,
    /// By contestant.
    samples: BTreeMap<String, Metrics>,
}

impl Report {
    /// Summarises `run`, with ratios to the contestant called `reference`.
    pub(crate) fn new(run: &Interleaved, reference: &str) -> Self {
        let rounds = run.rounds.iter().map(|round| round_report(&run.names, round)).collect();
        let summary = summarise(run, reference);
        let (machine, reference) = (run.machine.clone(), reference.to_owned());
        Self { machine, reference, summary, rounds }
    }

    /// Returns whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// The median of a contestant's figure, if it has one.
    pub(crate) fn median(&self, contestant: &str, metric: &str) -> Option<f64> {
        self.find(contestant, metric).map(|line| line.median)
    }

    /// The median ratio of a contestant's figure to the reference's, if there is one.
    pub(crate) fn ratio(&self, contestant: &str, metric: &str) -> Option<f64> {
        self.find(contestant, metric)?.ratio_to_reference
    }

    fn find(&self, contestant: &str, metric: &str) -> Option<&Summary> {
        self.summary.iter().find(|line| line.contestant == contestant && line.metric == metric)
    }
}

fn round_report(names: &[String], round: &Round) -> RoundReport {
    RoundReport {
        machine_before: round.before,
        machine_after: round.after,
        samples: names.iter().cloned().zip(round.samples.iter().cloned()).collect(),
    }
}

/// Returns one line per metric and contestant, grouped by metric.
fn summarise(run: &Interleaved, reference: &str) -> Vec<Summary> {
    let samples = run.rounds.iter().flat_map(|round| &round.samples);
    let metrics: BTreeSet<&'static str> =
        samples.flat_map(|sample| sample.keys().copied()).collect();
    let mut lines = Vec::new();
    for metric in metrics {
        for contestant in &run.names {
            lines.extend(summarise_one(run, metric, contestant, reference));
        }
    }
    lines
}

fn summarise_one(
    run: &Interleaved,
    metric: &'static str,
    contestant: &str,
    reference: &str,
) -> Option<Summary> {
    let Spread { median, least, most } = spread(run, metric, contestant)?;
    Some(Summary {
        metric,
        contestant: contestant.to_owned(),
        min: least,
        median,
        max: most,
        ratio_to_reference: ratio(run, metric, contestant, reference).map(|ratio| ratio.median),
    })
}

/// A figure over all rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures.iter().copied());
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: median(&sorted), least, most })
    }
}

/// Returns a contestant's figures by round; empty if it has none.
pub(crate) fn figures(run: &Interleaved, metric: &str, contestant: &str) -> Vec<f64> {
    by_round(run, metric, contestant).into_iter().flatten().collect()
}

/// Returns a contestant's figure over the rounds that have it.
pub(crate) fn spread(run: &Interleaved, metric: &str, contestant: &str) -> Option<Spread> {
    Spread::of(&figures(run, metric, contestant))
}

/// Returns one contestant's figure over another's in the same round.
pub(crate) fn ratio(run: &Interleaved, metric: &str, of: &str, by: &str) -> Option<Spread> {
    let pairs = by_round(run, metric, of).into_iter().zip(by_round(run, metric, by));
    let ratios: Vec<f64> =
        pairs.filter_map(|(of, by)| Some(of? / by?)).filter(|ratio| ratio.is_finite()).collect();
    Spread::of(&ratios)
}

fn by_round(run: &Interleaved, metric: &str, contestant: &str) -> Vec<Option<f64>> {
    let Some(who) = run.names.iter().position(|name| name == contestant) else {
        return Vec::new();
    };
    let sample = |round: &Round| round.samples.get(who)?.get(metric).copied();
    run.rounds.iter().map(sample).collect()
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name_width = width("contestant", self.summary.iter().map(|line| &*line.contestant));
        let metric_width = width("metric", self.summary.iter().map(|line| line.metric));
        writeln!(
            f,
            "{:metric_width$}  {:name_width$}  {:>10}  {:>10}  {:>10}  ratio to {}",
            "metric", "contestant", "median", "min", "max", self.reference
        )?;
        for line in &self.summary {
            let [median, min, max] = [line.median, line.min, line.max].map(number);
            let ratio = line.ratio_to_reference.map_or("-".to_owned(), |r| format!("{r:.3}"));
            writeln!(
                f,
                "{:metric_width$}  {:name_width$}  {median:>10}  {min:>10}  {max:>10}  {ratio}",
                line.metric, line.contestant
            )?;
        }
        self.write_machine(f)
    }
}

impl Report {
    fn write_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine: {}", self.machine)?;
        for (number, round) in (1..).zip(&self.rounds) {
            writeln!(f, "round {number}: {} -> {}", round.machine_before, round.machine_after)?;
        }
        Ok(())
    }
}

fn width<'a>(title: &str, cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(str::len).fold(title.len(), usize::max)
}

/// Formats a number with three decimals, or without if they do not matter.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1e4 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::machine::Distance;

    fn run(samples: &[(f64, f64)]) -> Interleaved {
        let state = MachineState { distance: Distance::Near, cache_line_hop_ns: Some(42.0) };
        let sample = |value| Metrics::from([("goodput_gbytes_per_s", value)]);
        let round = |&(a, b): &(f64, f64)| Round {
            before: state,
            after: state,
            samples: vec![sample(a), sample(b)],
        };
        Interleaved {
            machine: MachineInfo::read(),
            names: vec!["a".to_owned(), "b".to_owned()],
            rounds: samples.iter().map(round).collect(),
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine doubles its speed in every round, and the ratio stays.
        let report = Report::new(&run(&[(1.0, 2.0), (2.0, 4.0), (4.0, 8.0)]), "b");
        assert_eq!(report.ratio("a", "goodput_gbytes_per_s"), Some(0.5));
        assert_eq!(report.median("a", "goodput_gbytes_per_s"), Some(2.0));
        assert_eq!(report.median("b", "goodput_gbytes_per_s"), Some(4.0));
    }

    #[test]
    fn an_interrupted_round_counts_for_those_that_have_run() {
        let mut run = run(&[(1.0, 2.0), (3.0, 4.0)]);
        run.rounds[1].samples.pop();
        let report = Report::new(&run, "b");
        assert_eq!(report.median("a", "goodput_gbytes_per_s"), Some(2.0));
        assert_eq!(report.median("b", "goodput_gbytes_per_s"), Some(2.0));
        assert_eq!(report.ratio("a", "goodput_gbytes_per_s"), Some(0.5));
    }

    #[test]
    fn a_missing_reference_leaves_the_ratio_out() {
        let report = Report::new(&run(&[(1.0, 0.0)]), "c");
        assert_eq!(report.ratio("a", "goodput_gbytes_per_s"), None);
        assert!(report.to_string().contains("near (42 ns)"));
        let report = Report::new(&run(&[(1.0, 0.0)]), "b");
        assert_eq!(report.ratio("a", "goodput_gbytes_per_s"), None);
    }

    #[test]
    fn json_has_every_sample_and_its_unit() {
        let json = serde_json::to_value(Report::new(&run(&[(1.5, 3.0)]), "b")).unwrap();
        assert_eq!(json["rounds"][0]["samples"]["a"]["goodput_gbytes_per_s"], 1.5);
        assert_eq!(json["rounds"][0]["machine_before"]["distance"], "near");
        assert_eq!(json["summary"][0]["ratio_to_reference"], 0.5);
    }
}
