//! Failures of a run, and their exit status.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use braid::{EndCause, Status};

use crate::peer::error::PeerError;

/// The exit status after a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// The reason for a failed run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// A key file cannot be made.
    #[error("{0}")]
    Key(String),
    /// The engine reported an error.
    #[error("{what}: {why}")]
    Engine { what: &'static str, why: String },
    /// A work request failed. Queue pairs are numbered from 0, as in the results.
    #[error("{what} on queue pair {qp} with {peer} failed: {}", why(*status, *cause))]
    Work { what: String, qp: usize, peer: SocketAddr, status: Status, cause: Option<EndCause> },
    /// A received byte is wrong.
    #[error(
        "message {message} of queue pair {qp}: byte {offset} is {found:#04x}, not {expected:#04x}"
    )]
    Corrupt { qp: usize, message: u64, offset: usize, found: u8, expected: u8 },
    /// A received message is wrong.
    #[error("message {message} of queue pair {qp}: {what}")]
    Wrong { qp: usize, message: u64, what: String },
    /// The other side broke the protocol of the benchmark.
    #[error("the other side {0}")]
    Peer(String),
    /// The connection ended.
    #[error("{}", match .0 {
        EndCause::Peer => "the other side ended the connection".to_owned(),
        cause => format!("the connection with the other side has ended: {cause}"),
    })]
    Ended(EndCause),
    /// The client that started this server has ended.
    #[error("the client that started this server has ended")]
    Abandoned,
    /// A signal ended the run.
    #[error("interrupted")]
    Interrupted,
    /// A signal ended the run at the other side.
    #[error("the other side was interrupted")]
    PeerInterrupted,
    /// A signal ended the run at another rank.
    #[error("another rank was interrupted")]
    RankInterrupted,
    /// Rank 0 has told the user of the interruption.
    #[error("rank 0 has reported the interruption")]
    Reported { exit_status: u8 },
    /// Nothing happened for too long.
    #[error("nothing happened for {0:?}")]
    Stalled(Duration),
    /// A run on a fabric failed.
    #[error("{0}")]
    Trial(String),
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] braid_lab::FabricError),
    /// A program.
    #[error(transparent)]
    Process(#[from] braid_lab::process::ProcessError),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Draw(#[from] braid_lab::charts::DrawError),
    /// A raw peer failed.
    #[error(transparent)]
    Raw(#[from] PeerError),
    /// Standard output is closed or full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// An operation on a file or a process failed.
    #[error("{what}: {why}")]
    Io { what: String, why: io::Error },
}

impl Failure {
    /// Returns whether what was measured before is a result: the connection has ended, or nothing
    /// came any more.
    pub(crate) fn leaves_results(&self) -> bool {
        matches!(
            self,
            Failure::Ended(_) | Failure::Work { .. } | Failure::Stalled(_) | Failure::Interrupted
        )
    }

    /// Returns whether the failure concerns one client of a server, which can serve the next one.
    pub(crate) fn is_of_one_client(&self) -> bool {
        !matches!(self, Failure::Output(_) | Failure::Interrupted)
    }

    /// Returns whether the other side has ended the connection.
    pub(crate) fn is_end_of_connection(&self) -> bool {
        matches!(self, Failure::Ended(_) | Failure::Work { status: Status::Flushed, .. })
    }
}

/// Describes a failed work request, with its cause if that is not the request itself.
fn why(status: Status, cause: Option<EndCause>) -> String {
    match (status, cause) {
        (Status::Flushed, Some(cause)) => cause.to_string(),
        (Status::RetryExceeded, Some(cause)) => format!("retry exceeded: {cause}"),
        _ => status.to_string(),
    }
}

impl braid_lab::pages::Failure for Failure {
    /// Whether somebody else has more to say of it, or has heard enough. That is who has closed our
    /// standard output, the client that has started this server for itself, or rank 0.
    fn is_no_news(&self) -> bool {
        match self {
            Failure::Output(why) => why.kind() == ErrorKind::BrokenPipe,
            Failure::Abandoned | Failure::Reported { .. } => true,
            _ => false,
        }
    }

    fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Interrupted => INTERRUPTED,
            Failure::Reported { exit_status } => *exit_status,
            _ => 1,
        }
    }
}

/// Adds the attempted operation to an error of the engine.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: &'static str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> Attempt<T> for Result<T, E> {
    fn attempt(self, what: &'static str) -> Result<T, Failure> {
        self.map_err(|error| Failure::Engine { what, why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_work_request_names_its_operation_and_its_cause() {
        let peer = "10.0.0.2:4791".parse().expect("an address");
        let says = |status, cause| {
            let what = "Write of message 17".to_owned();
            Failure::Work { what, qp: 3, peer, status, cause: Some(cause) }.to_string()
        };
        let begin = "Write of message 17 on queue pair 3 with 10.0.0.2:4791 failed";
        for cause in [EndCause::PeerSilent, EndCause::PeerGone, EndCause::PeerUnknown] {
            let exceeded = says(Status::RetryExceeded, cause);
            assert_eq!(exceeded, format!("{begin}: retry exceeded: {cause}"));
            assert_eq!(says(Status::Flushed, cause), format!("{begin}: {cause}"));
            let ended = Failure::Ended(cause).to_string();
            assert_eq!(ended, format!("the connection with the other side has ended: {cause}"));
        }
        let refused = says(Status::RemoteAccess, EndCause::RefusedByPeer(Status::RemoteAccess));
        assert_eq!(refused, format!("{begin}: {}", Status::RemoteAccess));
        let closed = Failure::Ended(EndCause::Peer).to_string();
        assert_eq!(closed, "the other side ended the connection");
    }
}
