//! Failures of runs.

use std::path::PathBuf;

use crate::scenario::ScenarioError;
use crate::simulation::RunError;

/// The reason for a missing report.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// The scenario cannot be built.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run has no result.
    #[error("{scenario}, seed {seed}: {why}")]
    Run {
        /// The scenario's name.
        scenario: String,
        /// The run's seed.
        seed: u64,
        /// The error of the run.
        why: RunError,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {path}: {why}", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
}
