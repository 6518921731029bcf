//! Why a command failed, and the exit status that says so.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use braid_charts::DrawError;
use braid_sim::report::RunFailure;
use braid_studies::WriteError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for what there is not.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Log(#[from] braid_log::FilterError),
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// What a study leaves on disk.
    #[error(transparent)]
    Study(#[from] WriteError),
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A file of results.
    #[error("cannot write {}: {why}", path.display())]
    Write { path: PathBuf, why: io::Error },
    /// Man pages and completions.
    #[error("cannot write into {}: {why}", prefix.display())]
    Pages { prefix: PathBuf, why: io::Error },
    /// Standard output is full, or closed.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}

impl Failure {
    /// Whether who has closed our standard output has heard enough.
    pub(crate) fn is_no_news(&self) -> bool {
        matches!(self, Failure::Output(why) if why.kind() == ErrorKind::BrokenPipe)
    }

    /// 2: bad usage, or something wrong in a scenario or matrix; 1: the run failed, or cannot be told.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Log(_) | Failure::Run(RunFailure::Scenario(_)) => 2,
            _ => 1,
        }
    }
}
