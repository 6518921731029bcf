//! Reasons why a queue pair is in ERR.

use crate::{Status, Work};

/// Reason why a queue pair went into ERR, and the work request that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpError {
    /// The cause.
    pub cause: EndCause,
    /// The work request that failed. The others were flushed.
    pub work: Option<FailedWork>,
}

/// The work request whose failure ended its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedWork {
    /// The id of the work request.
    pub wr_id: u64,
    /// The kind of work request.
    pub work: Work,
    /// The status of its completion.
    pub status: Status,
}

/// Reason why a queue pair ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndCause {
    /// The application moved the queue pair to ERR, or disconnected it.
    #[error("ended by this application")]
    Application,
    /// A completion queue of this queue pair overflowed.
    #[error("the completion queue overflowed: poll it more often, or create it larger")]
    CompletionQueueOverrun,
    /// A copy to or from device memory failed.
    #[error("a copy to or from GPU memory failed: the log names the CUDA error")]
    DeviceMemory,
    /// The RDMA device that moves the packets was removed, or has failed.
    #[error("the RDMA device was removed or has failed")]
    DeviceGone,
    /// A local memory region was deregistered, or lacks a permission that a work request needs.
    #[error("a local memory region was deregistered or lacks the permission")]
    LocalMemory,
    /// The peer ended the connection without refusing anything.
    #[error("ended by the peer")]
    Peer,
    /// Nothing arrived from the peer in time.
    #[error("the peer did not answer in time")]
    PeerSilent,
    /// The peer's host reports that its port is closed (ICMP port unreachable), and no PING was
    /// answered: the peer's process has ended.
    #[error(
        "the peer's host reports that the port is closed: the process has ended, or a firewall rejects packets"
    )]
    PeerGone,
    /// The peer does not have this queue pair any more: it was restarted, or it has ended the queue
    /// pair and its DISCONNECT was lost.
    #[error("the peer does not have this connection: it was restarted, or has ended it")]
    PeerUnknown,
    /// The peer posted no receive in time.
    #[error("the peer posted no receive work request in time")]
    PeerNotReady,
    /// The peer refused a work request of this end.
    #[error("the peer refused a work request: {0}")]
    RefusedByPeer(Status),
    /// This end refused a request of the peer. [`Status::RemoteAccess`]: the peer lacked the
    /// permission. [`Status::LocalLength`]: its message was longer than the receive buffer.
    #[error("a request of the peer was refused here: {0}")]
    RefusedHere(Status),
    /// The peer acknowledged data that it never received, or violated the protocol in another way.
    #[error("the peer violates the protocol: it acknowledged or answered what was not sent")]
    PeerUntrue,
}

impl EndCause {
    /// The status of the oldest work request if the cause is not a failure of its own.
    pub(crate) fn status(self) -> Status {
        match self {
            EndCause::Application
            | EndCause::CompletionQueueOverrun
            | EndCause::DeviceMemory
            | EndCause::DeviceGone
            | EndCause::Peer => Status::Flushed,
            EndCause::PeerSilent | EndCause::PeerGone | EndCause::PeerUnknown => {
                Status::RetryExceeded
            }
            EndCause::PeerNotReady => Status::RnrRetryExceeded,
            EndCause::LocalMemory => Status::LocalProtection,
            EndCause::RefusedByPeer(status) | EndCause::RefusedHere(status) => status,
            EndCause::PeerUntrue => Status::RemoteOperational,
        }
    }
}

impl From<Status> for EndCause {
    /// Returns the cause that corresponds to the status of a failed work request.
    fn from(status: Status) -> Self {
        match status {
            Status::Success | Status::Flushed => EndCause::Application,
            Status::LocalProtection => EndCause::LocalMemory,
            Status::RetryExceeded => EndCause::PeerSilent,
            Status::RnrRetryExceeded => EndCause::PeerNotReady,
            Status::LocalLength => EndCause::RefusedHere(status),
            Status::RemoteInvalidRequest | Status::RemoteAccess | Status::RemoteOperational => {
                EndCause::RefusedByPeer(status)
            }
        }
    }
}

impl From<EndCause> for QpError {
    fn from(cause: EndCause) -> Self {
        QpError { cause, work: None }
    }
}

impl std::fmt::Display for QpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.cause)?;
        match self.work {
            Some(FailedWork { wr_id, work, .. }) => {
                write!(f, " (work request {wr_id}, {work:?})")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for QpError {}
