//! The runs for figures 8, 9 and 12, table II and theorem 1: five schemes, two patterns, several
//! sizes.

use super::outcome::{ProOutcome, measure};
use super::setup::{MESSAGE, Pattern, ProScheme, ProSetup, paper_fabric};
use crate::runs::Runs;
use crate::{Effort, Point, Series};

/// All runs.
pub(super) struct Comparison {
    runs: Runs<ComparisonCase, ProOutcome>,
    /// Message sizes, the largest last.
    sizes: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ComparisonCase {
    pattern: Pattern,
    bytes: u64,
    scheme: ProScheme,
}

impl Comparison {
    /// Returns no runs yet.
    pub(super) fn new(effort: &Effort) -> Comparison {
        let sizes = match effort.quick {
            true => vec![250_000, 1_000_000],
            false => vec![1_000_000, 4_000_000, MESSAGE],
        };
        let runs = Runs::new("Fig. 8, 9, 12", effort.seeds(3), ComparisonCase::measure);
        Comparison { runs, sizes }
    }

    /// Runs both patterns with all sizes.
    pub(super) fn prepare_all(&self) {
        let mut cases = Vec::new();
        // Long runs first, so that the cores finish together.
        for bytes in self.sizes.iter().copied().rev() {
            for pattern in [Pattern::TREE, Pattern::Ring] {
                cases.extend(ComparisonCase::of_all_schemes(pattern, bytes));
            }
        }
        self.runs.prepare(cases);
    }

    /// Runs the ring with the largest size.
    pub(super) fn prepare_largest_ring(&self) {
        self.runs.prepare(ComparisonCase::of_all_schemes(Pattern::Ring, self.largest()));
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
        self.runs.values(&ComparisonCase { pattern, bytes, scheme }, value)
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
    fn of_all_schemes(pattern: Pattern, bytes: u64) -> Vec<ComparisonCase> {
        let case = |scheme| ComparisonCase { pattern, bytes, scheme };
        ProScheme::COMPARED.map(case).into()
    }

    fn measure(&self, seed: u64) -> ProOutcome {
        let topology = paper_fabric();
        let workload = self.pattern.workload(&topology, self.bytes, seed);
        let plan = ProSetup::new(self.scheme, seed).plan(&topology, workload);
        let balance = self.pattern == Pattern::Ring;
        measure(plan, balance).unwrap_or_else(|error| panic!("{self:?}, seed {seed}: {error}"))
    }
}

/// Formats a range such as "1.00 to 1.02", or one number if both ends look the same.
pub(super) fn range(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (format!("{least:.decimals$}"), format!("{most:.decimals$}"));
    if least == most { least } else { format!("{least} to {most}") }
}
