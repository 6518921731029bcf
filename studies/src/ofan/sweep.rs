//! Runs of several schemes over several points of an axis and several seeds.

use super::scheme::OfanScheme;
use super::setup::{OfanOutcome, OfanSetup};
use crate::{Point, Series, Spread, run_all};

/// Results by scheme, point of the axis and seed.
#[derive(Clone, Debug)]
pub(super) struct Sweep<X> {
    schemes: Vec<OfanScheme>,
    places: Vec<X>,
    /// Outcomes by scheme, then by point.
    outcomes: Vec<Vec<Vec<OfanOutcome>>>,
}

impl<X: Copy + PartialEq> Sweep<X> {
    /// Runs every scheme at every point with every seed.
    pub(super) fn run(
        what: &str,
        schemes: &[OfanScheme],
        places: &[X],
        seeds: impl Iterator<Item = u64>,
        setup: impl Fn(OfanScheme, X, u64) -> OfanSetup,
    ) -> Sweep<X> {
        let seeds: Vec<u64> = seeds.collect();
        let mut jobs = Vec::new();
        for scheme in schemes {
            for place in places {
                jobs.extend(seeds.iter().map(|seed| setup(*scheme, *place, *seed)));
            }
        }
        let mut outcomes = run_all(what, jobs, |setup| setup.run()).into_iter();
        let mut next = || outcomes.by_ref().take(seeds.len()).collect::<Vec<_>>();
        let by_place = |_: &OfanScheme| places.iter().map(|_| next()).collect();
        Sweep {
            outcomes: schemes.iter().map(by_place).collect(),
            schemes: schemes.to_vec(),
            places: places.to_vec(),
        }
    }

    /// Returns the values of a scheme at a point.
    ///
    /// # Panics
    /// Panics if it was not run.
    pub(super) fn values(
        &self,
        scheme: OfanScheme,
        place: X,
        value: impl Fn(&OfanOutcome) -> f64,
    ) -> Vec<f64> {
        let row = self.schemes.iter().position(|known| *known == scheme);
        let column = self.places.iter().position(|known| *known == place);
        let (Some(row), Some(column)) = (row, column) else {
            panic!("{} was not run at this place", scheme.name());
        };
        self.outcomes[row][column].iter().map(value).collect()
    }

    /// Returns the same values as a spread.
    pub(super) fn spread(
        &self,
        scheme: OfanScheme,
        place: X,
        value: impl Fn(&OfanOutcome) -> f64,
    ) -> Spread {
        Spread::of(&self.values(scheme, place, value))
    }

    /// Returns the percent over the lower bound, as the mean over the seeds.
    pub(super) fn increase(&self, scheme: OfanScheme, place: X) -> f64 {
        self.spread(scheme, place, OfanOutcome::increase).mean
    }

    /// Returns a series per scheme; `x` gives the position of a point.
    pub(super) fn lines(
        &self,
        x: impl Fn(X) -> f64,
        value: impl Fn(&OfanOutcome) -> f64,
    ) -> Vec<Series> {
        self.series(x, |_| None, value)
    }

    /// Returns a series per scheme, a group of bars per point.
    pub(super) fn bars(
        &self,
        label: impl Fn(X) -> String,
        value: impl Fn(&OfanOutcome) -> f64,
    ) -> Vec<Series> {
        let number = |place| self.places.iter().position(|known| *known == place);
        self.series(
            |place| number(place).map_or(0.0, |n| n as f64),
            |place| Some(label(place)),
            value,
        )
    }

    fn series(
        &self,
        x: impl Fn(X) -> f64,
        label: impl Fn(X) -> Option<String>,
        value: impl Fn(&OfanOutcome) -> f64,
    ) -> Vec<Series> {
        let point = |scheme: OfanScheme, place: X| Point {
            x: x(place),
            label: label(place),
            y: self.spread(scheme, place, &value),
        };
        let of = |scheme: &OfanScheme| Series {
            name: scheme.name().into(),
            points: self.places.iter().map(|place| point(*scheme, *place)).collect(),
        };
        self.schemes.iter().map(of).collect()
    }
}
