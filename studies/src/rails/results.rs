//! The study's runs, and how schemes compare in them.

use braid_lb::LoadMse;

use super::load::Load;
use super::outcome::{Outcome, measure};
use super::scale::Scale;
use super::scheme::Scheme;
use super::setup::Setup;
use crate::runs::Runs;
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Verdict};

/// Runs per set-up, at most: they differ by chance among equal paths only.
const SEEDS: u32 = 2;
/// The paper's numbers come out if what is measured is within a tenth of them.
const NEAR: f64 = 0.1;
/// Shares of time may be off by so many hundredths.
const NEAR_PERCENT: f64 = 5.0;

/// All runs of the study.
pub(super) struct Results {
    pub(super) scale: Scale,
    pub(super) runs: Runs<Setup, Outcome>,
}

impl Results {
    pub(super) fn make(scale: Scale, setups: Vec<Setup>, effort: &Effort) -> Results {
        Results { scale, runs: Runs::make("rails", setups, effort.seeds(SEEDS), measure) }
    }

    pub(super) fn of(&self, scheme: Scheme, load: Load) -> &[Outcome] {
        self.runs.of(&self.scale.setup(scheme, load))
    }

    /// A quantity of a scheme, run by run.
    pub(super) fn values(&self, scheme: Scheme, load: Load, of: fn(&Outcome) -> f64) -> Vec<f64> {
        self.runs.values(&self.scale.setup(scheme, load), of)
    }

    pub(super) fn mean(&self, scheme: Scheme, load: Load, of: fn(&Outcome) -> f64) -> f64 {
        self.runs.mean(&self.scale.setup(scheme, load), of)
    }

    /// A quantity of a scheme over the mean of another quantity of another scheme.
    pub(super) fn over(
        &self,
        (scheme, of): (Scheme, fn(&Outcome) -> f64),
        (base, of_base): (Scheme, fn(&Outcome) -> f64),
        load: Load,
    ) -> Vec<f64> {
        let base = self.mean(base, load, of_base);
        self.values(scheme, load, of).into_iter().map(|value| value / base).collect()
    }

    /// How often the second's completion time has the first's in it: the first's bus bandwidth over the second's.
    pub(super) fn times(&self, scheme: Scheme, base: Scheme, load: Load) -> f64 {
        self.mean(base, load, Outcome::total_us) / self.mean(scheme, load, Outcome::total_us)
    }

    /// How much sooner RailS completes than each of these, in percent: the least and the most.
    pub(super) fn sooner(&self, others: &[Scheme], load: Load) -> [f64; 2] {
        let percent =
            |other: &Scheme| 100.0 * (1.0 - 1.0 / self.times(Scheme::RAILS, *other, load));
        range(others.iter().map(percent))
    }

    /// The mean over the runs.
    pub(super) fn mse(&self, scheme: Scheme, load: Load, of: fn(&Outcome) -> LoadMse) -> LoadMse {
        let runs = self.of(scheme, load);
        let mean = |part: fn(LoadMse) -> f64| {
            runs.iter().map(|run| part(of(run))).sum::<f64>() / runs.len() as f64
        };
        LoadMse { of_max: mean(|mse| mse.of_max), of_mean: mean(|mse| mse.of_mean) }
    }
}

/// The least and the most.
pub(super) fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], value| {
        [value.min(least), value.max(most)]
    })
}

/// Whether a ratio is the paper's.
pub(super) fn is_near(measured: f64, papers: f64) -> bool {
    (measured / papers - 1.0).abs() <= NEAR
}

/// Whether shares, in percent, are within the paper's.
pub(super) fn is_within([least, most]: [f64; 2], papers: [f64; 2]) -> bool {
    least >= papers[0] - NEAR_PERCENT && most <= papers[1] + NEAR_PERCENT
}

pub(super) fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// `ECMP 1.20, PLB 1.10`, and so on.
pub(super) fn listed(schemes: &[Scheme], of: impl Fn(Scheme) -> String) -> String {
    let each = schemes.iter().map(|scheme| format!("{} {}", scheme.name, of(*scheme)));
    each.collect::<Vec<_>>().join(", ")
}

/// A group of bars for each of `groups`, a bar for each scheme.
pub(super) fn bars<G: Copy>(
    [id, title, label]: [&str; 3],
    groups: &[(&str, G)],
    schemes: &[Scheme],
    values: impl Fn(Scheme, G) -> Vec<f64>,
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
