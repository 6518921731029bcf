//! The reasons for failed work.

use std::io;

use braid::{
    ConnectError, CreateCqError, CreateQpError, MemoryError, PostError, QpError, RegisterError,
    Status,
};

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call is outside of a runtime of tokio.
    #[error("no tokio runtime here; call this from a task, or inside of `Runtime::enter`")]
    NoRuntime,
    /// The runtime cannot watch a descriptor.
    #[error(
        "the runtime cannot watch a descriptor: {0}; build it with `enable_io`, and raise the \
         limit of open files (`ulimit -n`) if it is reached"
    )]
    Watch(#[source] io::Error),
    /// The completion queue was not created.
    #[error(transparent)]
    CreateCq(#[from] CreateCqError),
    /// The queue pair was not created.
    #[error(transparent)]
    CreateQp(#[from] CreateQpError),
    /// The connection was not made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The work request was not posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The buffer has no such bytes.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The memory was not registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The work request was executed and failed.
    #[error("{}", failed(*status, *cause))]
    Failed {
        /// The status of the completion.
        status: Status,
        /// The reason why the queue pair ended, if it did.
        cause: Option<QpError>,
    },
    /// The connection was dropped before the work ended.
    #[error("the connection was dropped before the work ended; keep it until then")]
    Dropped,
}

fn failed(status: Status, cause: Option<QpError>) -> String {
    match cause {
        Some(cause) => format!("{status}: {cause}"),
        None => status.to_string(),
    }
}
