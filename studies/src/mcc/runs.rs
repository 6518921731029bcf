//! The runs of the study.

use super::outcome::MccOutcome;
use super::setup::MccSetup;

/// Maximum runs per set-up. Runs differ only in the choice among equal queues.
pub(super) const SEEDS: u32 = 3;

pub(super) type MccRuns = crate::runs::Runs<MccSetup, MccOutcome>;

impl MccRuns {
    /// Returns the number of packets lost in all runs.
    pub(super) fn lost(&self) -> u64 {
        self.sum(|run| run.lost)
    }

    /// Returns the mean completion time.
    pub(super) fn completion_ms(&self, setup: &MccSetup) -> f64 {
        self.mean(setup, |run| run.completion_ms)
    }
}
