//! The runs for figures 8, 9 and 12, table II and theorem 1: five schemes, two patterns, several
//! sizes.

use super::outcome::{ProOutcome, measure};
use super::setup::{MESSAGE, Pattern, ProScheme, ProSetup, paper_fabric};
use crate::{Effort, Point, Series, run_all};

/// All runs.
pub(super) struct Comparison {
    runs: Vec<Run>,
    /// Message sizes, the largest last.
    sizes: Vec<u64>,
}

struct Run {
    case: ComparisonCase,
    outcome: ProOutcome,
}

#[derive(Clone, Copy, Debug)]
struct ComparisonCase {
    pattern: Pattern,
    bytes: u64,
    scheme: ProScheme,
    seed: u64,
}

impl Comparison {
    pub(super) fn run(effort: &Effort) -> Comparison {
        let sizes = match effort.quick {
            true => vec![250_000, 1_000_000],
            false => vec![1_000_000, 4_000_000, MESSAGE],
        };
        let mut cases = Vec::new();
        // Long runs first, so that the cores finish together.
        for bytes in sizes.iter().copied().rev() {
            for pattern in [Pattern::TREE, Pattern::Ring] {
                for scheme in ProScheme::COMPARED {
                    let seeds = effort.seeds(3);
                    cases.extend(seeds.map(|seed| ComparisonCase { pattern, bytes, scheme, seed }));
                }
            }
        }
        let runs = run_all("Fig. 8, 9, 12", cases, |case| Run { case, outcome: case.measure() });
        Comparison { runs, sizes }
    }

    pub(super) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the size in figures 9 and 12 and table II.
    pub(super) fn largest(&self) -> u64 {
        self.sizes[self.sizes.len() - 1]
    }

    /// Returns a value of every run, one per seed.
    pub(super) fn values(
        &self,
        pattern: Pattern,
        scheme: ProScheme,
        bytes: u64,
        value: impl Fn(&ProOutcome) -> f64,
    ) -> Vec<f64> {
        let here = self.runs.iter().filter(|run| {
            (run.case.pattern, run.case.scheme, run.case.bytes) == (pattern, scheme, bytes)
        });
        here.map(|run| value(&run.outcome)).collect()
    }

    /// Returns the mean of [`Comparison::values`].
    pub(super) fn mean(
        &self,
        pattern: Pattern,
        scheme: ProScheme,
        bytes: u64,
        value: impl Fn(&ProOutcome) -> f64,
    ) -> f64 {
        let values = self.values(pattern, scheme, bytes, value);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// Returns a line per scheme over the sizes in megabytes.
    pub(super) fn lines(
        &self,
        pattern: Pattern,
        value: impl Fn(&ProOutcome) -> f64,
    ) -> Vec<Series> {
        let line = |scheme: ProScheme| Series {
            name: scheme.name().into(),
            points: self
                .sizes
                .iter()
                .map(|bytes| {
                    let values = self.values(pattern, scheme, *bytes, &value);
                    Point::at(*bytes as f64 / 1e6, &values)
                })
                .collect(),
        };
        ProScheme::COMPARED.map(line).into()
    }

    /// Returns a line per scheme over percentiles, for the largest ring.
    pub(super) fn percentiles(
        &self,
        percents: &[f64],
        value: impl Fn(&ProOutcome, usize) -> f64,
    ) -> Vec<Series> {
        let line = |scheme: ProScheme| Series {
            name: scheme.name().into(),
            points: percents
                .iter()
                .enumerate()
                .map(|(at, percent)| {
                    let values = self.values(Pattern::Ring, scheme, self.largest(), |outcome| {
                        value(outcome, at)
                    });
                    Point::at(*percent, &values)
                })
                .collect(),
        };
        ProScheme::COMPARED.map(line).into()
    }
}

impl ComparisonCase {
    fn measure(self) -> ProOutcome {
        let topology = paper_fabric();
        let workload = self.pattern.workload(&topology, self.bytes, self.seed);
        let plan = ProSetup::new(self.scheme, self.seed).plan(&topology, workload);
        let balance = self.pattern == Pattern::Ring;
        measure(plan, balance).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// Formats a range such as "1.00 to 1.02", or one number if both ends look the same.
pub(super) fn range(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (format!("{least:.decimals$}"), format!("{most:.decimals$}"));
    if least == most { least } else { format!("{least} to {most}") }
}
