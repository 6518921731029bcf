//! How a communicator can break. It stays broken.

use std::ffi::c_int;

use braid::{CqError, PostError, Status};

use crate::result_code as code;

/// Why nothing works any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the peer closed the connection while requests were outstanding")]
    Closed,
    #[error("{0}")]
    Failed(Status),
    #[error(
        "a message of {size} bytes (tag {tag}) was sent to a receive buffer of {room} bytes; do all ranks call the same collective with the same count?"
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
    /// What NCCL is told.
    pub(crate) fn code(self) -> c_int {
        match self {
            // Memory that was deregistered too early, or never registered.
            Broken::Failed(Status::LocalProtection) | Broken::Refused(PostError::Access(_)) => {
                code::INVALID_USAGE
            }
            Broken::TooLong { .. } => code::INVALID_USAGE,
            Broken::Closed | Broken::Failed(_) | Broken::Protocol(_) => code::REMOTE_ERROR,
            Broken::Refused(_) | Broken::Overrun(_) => code::INTERNAL_ERROR,
        }
    }

    /// A flushed work request says that another one failed first, or that the peer has gone.
    pub(crate) fn by(status: Status) -> Self {
        if status == Status::Flushed { Broken::Closed } else { Broken::Failed(status) }
    }
}
