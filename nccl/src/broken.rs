//! The reasons why a communicator is broken. It stays broken.

use std::ffi::c_int;

use braid::{CqError, EndCause, PostError, Status};

use crate::result_code as code;

/// The reason why a communicator no longer works.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the peer closed the connection while requests were outstanding")]
    Closed,
    /// The cause, as in the engine's log.
    #[error("the connection has ended: {0}")]
    Lost(EndCause),
    #[error("{0}")]
    Failed(Status),
    #[error(
        "a message of {size} bytes (tag {tag}) does not fit a receive buffer of {room} bytes; call the same collective with the same count on all ranks"
    )]
    TooLong { size: u64, room: u64, tag: i32 },
    #[error("the peer broke the plugin's protocol: {0}")]
    Protocol(&'static str),
    #[error("a work request was refused: {0}")]
    Refused(PostError),
    #[error(transparent)]
    Overrun(CqError),
}

impl Broken {
    /// Returns the result code for NCCL.
    pub(crate) fn code(self) -> c_int {
        match self {
            // Memory that was deregistered too early or never registered.
            Broken::Failed(Status::LocalProtection) | Broken::Refused(PostError::Access(_)) => {
                code::INVALID_USAGE
            }
            Broken::TooLong { .. } => code::INVALID_USAGE,
            Broken::Closed | Broken::Lost(_) | Broken::Failed(_) | Broken::Protocol(_) => {
                code::REMOTE_ERROR
            }
            Broken::Refused(_) | Broken::Overrun(_) => code::INTERNAL_ERROR,
        }
    }

    /// Returns the reason for a failed work request. A flushed work request means that another one
    /// failed first or that the peer has gone. `cause` is the reason why the queue pair ended.
    pub(crate) fn by(status: Status, cause: Option<EndCause>) -> Self {
        match (status, cause) {
            (
                Status::Flushed | Status::RetryExceeded,
                Some(
                    lost @ (EndCause::PeerSilent
                    | EndCause::PeerGone
                    | EndCause::PeerUnknown
                    | EndCause::DeviceGone),
                ),
            ) => Broken::Lost(lost),
            (Status::Flushed, _) => Broken::Closed,
            (status, _) => Broken::Failed(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_peer_is_not_said_to_have_closed_the_connection() {
        for cause in [EndCause::PeerSilent, EndCause::PeerGone, EndCause::PeerUnknown] {
            for status in [Status::Flushed, Status::RetryExceeded] {
                assert_eq!(Broken::by(status, Some(cause)), Broken::Lost(cause));
            }
        }
        for cause in [None, Some(EndCause::Peer), Some(EndCause::Application)] {
            assert_eq!(Broken::by(Status::Flushed, cause), Broken::Closed);
        }
        let access = Status::RemoteAccess;
        let refused = Broken::by(access, Some(EndCause::RefusedByPeer(access)));
        assert_eq!(refused, Broken::Failed(access));
        assert_eq!(Broken::Lost(EndCause::PeerGone).code(), code::REMOTE_ERROR);
    }
}
