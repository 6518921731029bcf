//! The runs of the study.

use super::outcome::Outcome;
use super::setup::Setup;

/// Maximum runs per set-up. Runs differ only in the choice among equal queues.
pub(super) const SEEDS: u32 = 3;

pub(super) type Runs = crate::runs::Runs<Setup, Outcome>;

impl Runs {
    /// Returns the number of packets lost in all runs.
    pub(super) fn lost(&self) -> u64 {
        self.all().map(|run| run.lost).sum()
    }

    /// Returns the mean completion time.
    pub(super) fn completion_ms(&self, setup: &Setup) -> f64 {
        self.mean(setup, |run| run.completion_ms)
    }
}
