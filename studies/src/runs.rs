//! The runs of a study: each set-up once, for all figures.

use std::fmt::Debug;

use crate::run_all;

/// Outcomes by set-up, one per seed.
pub(crate) struct Runs<S, O>(Vec<(S, Vec<O>)>);

impl<S: Clone + PartialEq + Debug + Send, O: Clone + Send> Runs<S, O> {
    /// Runs all set-ups; `what` labels the progress bar.
    pub(crate) fn make(
        what: &str,
        setups: impl IntoIterator<Item = S>,
        seeds: impl Iterator<Item = u64> + Clone,
        measure: impl Fn(&S, u64) -> O + Sync,
    ) -> Self {
        let mut distinct: Vec<S> = Vec::new();
        for setup in setups {
            if !distinct.contains(&setup) {
                distinct.push(setup);
            }
        }
        let with_seeds = |setup: &S| {
            let setup = setup.clone();
            seeds.clone().map(move |seed| (setup.clone(), seed))
        };
        let jobs: Vec<(S, u64)> = distinct.iter().flat_map(with_seeds).collect();
        let outcomes = run_all(what, jobs, |(setup, seed)| measure(&setup, seed));
        let by_setup = outcomes.chunks(seeds.count()).map(<[O]>::to_vec);
        Runs(distinct.into_iter().zip(by_setup).collect())
    }

    /// Returns the outcomes of a set-up.
    ///
    /// # Panics
    /// Panics if it was not run.
    pub(crate) fn of(&self, setup: &S) -> &[O] {
        let runs = self.0.iter().find(|(of, _)| of == setup).map(|(_, runs)| runs.as_slice());
        runs.unwrap_or_else(|| panic!("{setup:?} was not run"))
    }

    /// Returns all outcomes.
    pub(crate) fn all(&self) -> impl Iterator<Item = &O> {
        self.0.iter().flat_map(|(_, runs)| runs)
    }

    /// Returns a quantity of a set-up's runs.
    pub(crate) fn values(&self, setup: &S, of: impl Fn(&O) -> f64) -> Vec<f64> {
        self.of(setup).iter().map(of).collect()
    }

    /// Returns the mean of a quantity.
    pub(crate) fn mean(&self, setup: &S, of: impl Fn(&O) -> f64) -> f64 {
        let values = self.values(setup, of);
        values.iter().sum::<f64>() / values.len() as f64
    }
}
