//! Why a command failed, and the exit status that says so.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use braid_lab::charts::DrawError;
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
    /// Man pages and completions.
    #[error("cannot write into {}: {why}", prefix.display())]
    Pages { prefix: PathBuf, why: io::Error },
    /// Standard output is full, or closed.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}

impl braid_lab::pages::Failure for Failure {
    fn is_no_news(&self) -> bool {
        matches!(self, Failure::Output(why) if why.kind() == ErrorKind::BrokenPipe)
    }

    /// Something wrong in a scenario or matrix is bad usage, too.
    fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Log(_) | Failure::Run(RunFailure::Scenario(_)) => 2,
            _ => 1,
        }
    }
}
