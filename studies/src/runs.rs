//! The runs of a study: each set-up once, for all figures.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;

use crate::run_all;

/// The outcomes of a set-up, one per seed.
type Outcomes<O> = Rc<[O]>;

/// Outcomes by set-up. A set-up runs when its outcomes are first asked for.
pub(crate) struct Runs<S, O> {
    what: &'static str,
    seeds: Vec<u64>,
    measure: fn(&S, u64) -> O,
    done: RefCell<Vec<(S, Outcomes<O>)>>,
}

impl<S: Clone + PartialEq + Debug + Send, O: Clone + Send> Runs<S, O> {
    /// Returns no runs yet; `what` labels their progress bars.
    pub(crate) fn new(
        what: &'static str,
        seeds: impl Iterator<Item = u64>,
        measure: fn(&S, u64) -> O,
    ) -> Self {
        Runs { what, seeds: seeds.collect(), measure, done: RefCell::default() }
    }

    /// Runs the set-ups that have not run yet, beside each other.
    pub(crate) fn prepare(&self, setups: impl IntoIterator<Item = S>) {
        let mut missing: Vec<S> = Vec::new();
        for setup in setups {
            if self.find(&setup).is_none() && !missing.contains(&setup) {
                missing.push(setup);
            }
        }
        if missing.is_empty() {
            return;
        }
        let with_seeds = |setup: &S| {
            let setup = setup.clone();
            self.seeds.iter().map(move |seed| (setup.clone(), *seed))
        };
        let jobs: Vec<(S, u64)> = missing.iter().flat_map(with_seeds).collect();
        let measure = self.measure;
        let outcomes = run_all(self.what, jobs, |(setup, seed)| measure(&setup, seed));
        let by_setup = outcomes.chunks(self.seeds.len()).map(Outcomes::from);
        self.done.borrow_mut().extend(missing.into_iter().zip(by_setup));
    }

    /// Returns the outcomes of a set-up.
    pub(crate) fn of(&self, setup: &S) -> Outcomes<O> {
        if self.find(setup).is_none() {
            self.prepare([setup.clone()]);
        }
        self.find(setup).expect("it was prepared")
    }

    fn find(&self, setup: &S) -> Option<Outcomes<O>> {
        self.done.borrow().iter().find(|(of, _)| of == setup).map(|(_, runs)| Rc::clone(runs))
    }

    /// Returns the sum of a quantity over all runs so far.
    pub(crate) fn sum(&self, of: impl Fn(&O) -> u64) -> u64 {
        self.done.borrow().iter().flat_map(|(_, runs)| runs.iter()).map(of).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_up_runs_once_per_seed_whoever_asks_first() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static RUN: AtomicU32 = AtomicU32::new(0);
        let runs = Runs::new("sums", [1, 2].into_iter(), |setup: &u64, seed| {
            RUN.fetch_add(1, Ordering::Relaxed);
            setup + seed
        });
        assert_eq!(*runs.of(&10), [11, 12]);
        runs.prepare([10, 20, 20]);
        assert_eq!(runs.mean(&20, |sum| *sum as f64), 21.5);
        assert_eq!(RUN.load(Ordering::Relaxed), 4);
        assert_eq!(runs.sum(|sum| *sum), 66);
    }
}
