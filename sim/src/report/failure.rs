//! Why there is no report.

use std::path::PathBuf;

use crate::scenario::ScenarioError;
use crate::simulation::RunError;

/// Why there is no report.
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
        /// What went wrong.
        why: RunError,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {path}: {why}", path = path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
}
