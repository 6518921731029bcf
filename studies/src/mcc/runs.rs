//! All runs of the study: each set-up once, whichever figures want it.

use super::outcome::{Outcome, measure};
use super::setup::Setup;
use crate::{Effort, run_all};

/// Runs per set-up, at most: they differ by chance among equal queues only.
const SEEDS: u32 = 3;

/// Outcomes by set-up, one per seed.
pub(super) struct Runs(Vec<(Setup, Vec<Outcome>)>);

impl Runs {
    /// Makes them.
    pub(super) fn make(setups: impl IntoIterator<Item = Setup>, effort: &Effort) -> Runs {
        let mut distinct: Vec<Setup> = Vec::new();
        for setup in setups {
            if !distinct.contains(&setup) {
                distinct.push(setup);
            }
        }
        let seeds = effort.seeds(SEEDS);
        let with_seeds = |setup: &Setup| {
            let setup = *setup;
            seeds.clone().map(move |seed| (setup, seed))
        };
        let jobs: Vec<(Setup, u64)> = distinct.iter().flat_map(with_seeds).collect();
        let outcomes = run_all("mcc", jobs, |(setup, seed)| measure(&setup, seed));
        let by_setup = outcomes.chunks(seeds.count()).map(<[Outcome]>::to_vec);
        Runs(distinct.into_iter().zip(by_setup).collect())
    }

    /// Those of a set-up.
    ///
    /// # Panics
    /// If it was not run.
    pub(super) fn of(&self, setup: &Setup) -> &[Outcome] {
        let runs = self.0.iter().find(|(of, _)| of == setup).map(|(_, runs)| runs.as_slice());
        runs.unwrap_or_else(|| panic!("{setup:?} was not run"))
    }

    /// Packets lost in all of them.
    pub(super) fn lost(&self) -> u64 {
        self.0.iter().flat_map(|(_, runs)| runs).map(|run| run.lost).sum()
    }

    /// A quantity of a set-up's runs.
    pub(super) fn values(&self, setup: &Setup, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.of(setup).iter().map(of).collect()
    }

    /// Its mean.
    pub(super) fn mean(&self, setup: &Setup, of: impl Fn(&Outcome) -> f64) -> f64 {
        let values = self.values(setup, of);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// The mean completion time.
    pub(super) fn completion_ms(&self, setup: &Setup) -> f64 {
        self.mean(setup, |run| run.completion_ms)
    }
}
