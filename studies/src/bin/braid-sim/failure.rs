//! Failures of a command, and their exit status.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use braid_lab::charts::DrawError;
use braid_sim::report::RunFailure;
use braid_studies::{PageError, UnknownExperiment, WriteError};

/// The reason for a failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line names something unknown.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Log(#[from] braid_log::FilterError),
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// Some pairs of policies of a comparison have no result, as its tables say.
    #[error("{failed} of {pairs} pairs of policies have no result, see above")]
    Unfinished { failed: usize, pairs: usize },
    /// The files of a study cannot be written.
    #[error(transparent)]
    Study(#[from] WriteError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Experiment(#[from] UnknownExperiment),
    /// The verdicts of a study are not those of its page.
    #[error(
        "{count} verdicts differ from {}, see above: find the commit that changed them and correct \
         it, or write the page again with `cargo xtask studies --write`", page.display()
    )]
    Verdicts { count: usize, page: PathBuf },
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// Man pages or completions cannot be written.
    #[error("cannot write into {}: {why}", prefix.display())]
    Pages { prefix: PathBuf, why: io::Error },
    /// Standard output is full or closed.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}

impl braid_lab::pages::Failure for Failure {
    fn is_no_news(&self) -> bool {
        matches!(self, Failure::Output(why) if why.kind() == ErrorKind::BrokenPipe)
    }

    /// Errors in a scenario or matrix count as bad usage.
    fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_)
            | Failure::Log(_)
            | Failure::Experiment(_)
            | Failure::Run(RunFailure::Scenario(_)) => 2,
            _ => 1,
        }
    }
}
