//! The study's runs.

use super::outcome::Outcome;
use super::setup::Setup;

/// Runs per set-up, at most: they differ by chance among equal queues only.
pub(super) const SEEDS: u32 = 3;

pub(super) type Runs = crate::runs::Runs<Setup, Outcome>;

impl Runs {
    /// Packets lost in all of them.
    pub(super) fn lost(&self) -> u64 {
        self.all().map(|run| run.lost).sum()
    }

    /// The mean completion time.
    pub(super) fn completion_ms(&self, setup: &Setup) -> f64 {
        self.mean(setup, |run| run.completion_ms)
    }
}
