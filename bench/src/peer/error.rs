//! The reasons for an unfinished run of a raw peer.

use std::io;
use std::time::Duration;

use braid_lab::process::ProcessError;

/// The reason for an unfinished run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// A system call failed.
    #[error("{context}: {cause}")]
    Io {
        /// The attempted operation.
        context: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The other side was silent for too long.
    #[error("no {what} within {after:?}")]
    Timeout {
        /// The awaited event.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The other process ended early or printed something unexpected.
    #[error("{0}")]
    Process(String),
    /// A QUIC connection failed.
    #[cfg(feature = "quic")]
    #[error("QUIC: {0}")]
    Quic(String),
    /// TLS could not be set up.
    #[cfg(feature = "quic")]
    #[error("TLS: {0}")]
    Tls(String),
    /// An option is out of range.
    #[error("{0}")]
    Usage(String),
}

impl From<ProcessError> for PeerError {
    fn from(error: ProcessError) -> Self {
        PeerError::Process(error.to_string())
    }
}

/// Says what was attempted when the kernel refuses it.
pub(super) trait Context<T> {
    /// Turns an `io::Error` into a [`PeerError`] that names `context`.
    fn context(self, context: &'static str) -> Result<T, PeerError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, context: &'static str) -> Result<T, PeerError> {
        self.map_err(|cause| PeerError::Io { context, cause })
    }
}
