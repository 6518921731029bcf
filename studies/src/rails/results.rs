//! The runs of the study, and comparisons of schemes.

use std::rc::Rc;

use braid_lb::LoadMse;

use super::load::Load;
use super::outcome::{RailsOutcome, measure};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::runs::Runs;
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Verdict};

/// Maximum runs per set-up. Runs differ only in the choice among equal paths.
const SEEDS: u32 = 2;
/// Relative tolerance of the paper's numbers.
const NEAR: f64 = 0.1;
/// Tolerance of shares of time, in percent.
const NEAR_PERCENT: f64 = 5.0;

/// All runs of the study.
pub(super) struct Results {
    pub(super) scale: RailsScale,
    pub(super) runs: Runs<RailsSetup, RailsOutcome>,
}

impl Results {
    /// Returns no runs yet.
    pub(super) fn new(scale: RailsScale, effort: &Effort) -> Results {
        Results { scale, runs: Runs::new("rails", effort.seeds(SEEDS), measure) }
    }

    pub(super) fn of(&self, scheme: RailsScheme, load: Load) -> Rc<[RailsOutcome]> {
        self.runs.of(&self.scale.setup(scheme, load))
    }

    /// Returns a quantity of a scheme, by run.
    pub(super) fn values(
        &self,
        scheme: RailsScheme,
        load: Load,
        of: fn(&RailsOutcome) -> f64,
    ) -> Vec<f64> {
        self.runs.values(&self.scale.setup(scheme, load), of)
    }

    pub(super) fn mean(
        &self,
        scheme: RailsScheme,
        load: Load,
        of: fn(&RailsOutcome) -> f64,
    ) -> f64 {
        self.runs.mean(&self.scale.setup(scheme, load), of)
    }

    /// Returns a quantity of a scheme over the mean of another quantity of another scheme.
    pub(super) fn over(
        &self,
        (scheme, of): (RailsScheme, fn(&RailsOutcome) -> f64),
        (base, of_base): (RailsScheme, fn(&RailsOutcome) -> f64),
        load: Load,
    ) -> Vec<f64> {
        let base = self.mean(base, load, of_base);
        self.values(scheme, load, of).into_iter().map(|value| value / base).collect()
    }

    /// Returns the completion time of `base` over that of `scheme`: the bus bandwidth of `scheme`
    /// over that of `base`.
    pub(super) fn times(&self, scheme: RailsScheme, base: RailsScheme, load: Load) -> f64 {
        self.mean(base, load, RailsOutcome::total_us)
            / self.mean(scheme, load, RailsOutcome::total_us)
    }

    /// Returns the least and the most percent by which RailS completes sooner than these schemes.
    pub(super) fn sooner(&self, others: &[RailsScheme], load: Load) -> [f64; 2] {
        let percent = |other: &RailsScheme| {
            100.0 * (1.0 - 1.0 / self.times(RailsScheme::RAILS, *other, load))
        };
        range(others.iter().map(percent))
    }

    /// Returns the mean load error over the runs.
    pub(super) fn mse(
        &self,
        scheme: RailsScheme,
        load: Load,
        of: fn(&RailsOutcome) -> LoadMse,
    ) -> LoadMse {
        let runs = self.of(scheme, load);
        let mean = |part: fn(LoadMse) -> f64| {
            runs.iter().map(|run| part(of(run))).sum::<f64>() / runs.len() as f64
        };
        LoadMse { of_max: mean(|mse| mse.of_max), of_mean: mean(|mse| mse.of_mean) }
    }
}

/// Returns the least and the most.
pub(super) fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], value| {
        [value.min(least), value.max(most)]
    })
}

/// Returns whether a ratio agrees with the paper's.
pub(super) fn is_near(measured: f64, papers: f64) -> bool {
    (measured / papers - 1.0).abs() <= NEAR
}

/// Returns whether shares, in percent, are within the paper's.
pub(super) fn is_within([least, most]: [f64; 2], papers: [f64; 2]) -> bool {
    least >= papers[0] - NEAR_PERCENT && most <= papers[1] + NEAR_PERCENT
}

pub(super) fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// Formats `ECMP 1.20, PLB 1.10`, and so on.
pub(super) fn listed(schemes: &[RailsScheme], of: impl Fn(RailsScheme) -> String) -> String {
    let each = schemes.iter().map(|scheme| format!("{} {}", scheme.name, of(*scheme)));
    each.collect::<Vec<_>>().join(", ")
}

/// Plots a group of bars for each of `groups`, with a bar per scheme.
pub(super) fn bars<G: Copy>(
    [id, title, label]: [&str; 3],
    groups: &[(&str, G)],
    schemes: &[RailsScheme],
    values: impl Fn(RailsScheme, G) -> Vec<f64>,
) -> Figure {
    let series = schemes.iter().map(|scheme| {
        let bars = groups.iter().enumerate();
        let points =
            bars.map(|(index, (name, group))| Point::bar(index, *name, &values(*scheme, *group)));
        Series { name: scheme.name.to_owned(), points: points.collect() }
    });
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        x: Axis::linear(""),
        y: Axis::linear(label),
        kind: Kind::Bars,
        series: series.collect(),
    }
}
