//! Why a queue pair is in ERR.

use crate::{Status, Work};

/// Cause of the end of a queue pair in ERR, and the work request that ended with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpError {
    /// The cause.
    pub cause: EndCause,
    /// The work request that did not end well. The others were flushed.
    pub work: Option<FailedWork>,
}

/// A work request that ended its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedWork {
    /// Its id.
    pub wr_id: u64,
    /// The kind of work request.
    pub work: Work,
    /// As its completion says.
    pub status: Status,
}

/// Cause of the end of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndCause {
    /// The application moved it to ERR, or disconnected.
    #[error("ended by this application")]
    Application,
    /// A completion queue of its own was full.
    #[error("its completion queue has overrun: poll it more often, or create it larger")]
    CompletionQueueOverrun,
    /// The device that moves the packets is gone: an RDMA device was removed, or has failed.
    #[error("the device that moves its packets is gone")]
    DeviceGone,
    /// A memory region of its own was deregistered, or does not allow what a work request needs.
    #[error("its own memory region is gone or does not allow this")]
    LocalMemory,
    /// The peer ended the connection, and refused nothing.
    #[error("ended by the peer")]
    Peer,
    /// Nothing came from the peer in time.
    #[error("the peer did not answer in time")]
    PeerSilent,
    /// The peer's host says that nobody receives at its port, and no PING is answered: its process
    /// has ended.
    #[error(
        "nobody receives at the peer's port any more, says its host: its process has ended, or a firewall refuses it"
    )]
    PeerGone,
    /// The peer has no such queue pair any more: it was restarted, or has let go of it unheard.
    #[error("the peer does not know the connection (any more)")]
    PeerUnknown,
    /// The peer posted no receive in time.
    #[error("the peer posted no receive work request in time")]
    PeerNotReady,
    /// The peer refused a work request of this end.
    #[error("the peer refused it: {0}")]
    RefusedByPeer(Status),
    /// This end refused what the peer asked for: [`Status::RemoteAccess`] where the peer may not,
    /// [`Status::LocalLength`] where its message was longer than the receive.
    #[error("a request of the peer was refused here: {0}")]
    RefusedHere(Status),
    /// The peer acknowledged what it never received, or does not keep to the protocol otherwise.
    #[error("the peer breaks the protocol: what it acknowledges or answers cannot be")]
    PeerUntrue,
}

impl EndCause {
    /// The status of the oldest work request where the cause is not one of its own.
    pub(crate) fn status(self) -> Status {
        match self {
            EndCause::Application
            | EndCause::CompletionQueueOverrun
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
    /// The cause that a work request with this status shows.
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
