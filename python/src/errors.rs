//! Exceptions. Their classes are in `braid/errors.py`.

use std::fmt::Display;

use braid::{EndCause, QpError, Status};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The module with the classes.
const CLASSES: &str = "braid.errors";

/// Creates an exception of the class `class`.
pub(crate) fn error(py: Python<'_>, class: &str, text: impl Display) -> PyErr {
    error_with(py, class, text, &PyDict::new(py))
}

/// Creates an exception whose class takes further arguments by keyword.
pub(crate) fn error_with(
    py: Python<'_>,
    class: &str,
    text: impl Display,
    arguments: &Bound<'_, PyDict>,
) -> PyErr {
    let made = py
        .import(CLASSES)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call((text.to_string(),), Some(arguments)));
    made.map_or_else(|failure| failure, PyErr::from_value)
}

/// Converts errors of the engine.
pub(crate) trait Raise<T> {
    /// Raises an exception of the class `class` with the text of the error.
    fn raise(self, py: Python<'_>, class: &str) -> PyResult<T>;
}

impl<T, E: Display> Raise<T> for Result<T, E> {
    fn raise(self, py: Python<'_>, class: &str) -> PyResult<T> {
        self.map_err(|failure| error(py, class, failure))
    }
}

/// The value of `braid.EndCause` for a cause.
pub(crate) fn cause_name(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Application => "application",
        EndCause::CompletionQueueOverrun => "completion-queue-overrun",
        EndCause::DeviceMemory => "device-memory",
        EndCause::DeviceGone => "device-gone",
        EndCause::LocalMemory => "local-memory",
        EndCause::Peer => "peer",
        EndCause::PeerSilent => "peer-silent",
        EndCause::PeerGone => "peer-gone",
        EndCause::PeerUnknown => "peer-unknown",
        EndCause::PeerNotReady => "peer-not-ready",
        EndCause::RefusedByPeer(_) => "refused-by-peer",
        EndCause::RefusedHere(_) => "refused-here",
        EndCause::PeerUntrue => "peer-untrue",
        _ => "other",
    }
}

/// The value of `braid.Status` for a status.
pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::LocalLength => "local-length",
        Status::LocalProtection => "local-protection",
        Status::Flushed => "flushed",
        Status::RemoteInvalidRequest => "remote-invalid-request",
        Status::RemoteAccess => "remote-access",
        Status::RemoteOperational => "remote-operational",
        Status::RetryExceeded => "retry-exceeded",
        Status::RnrRetryExceeded => "rnr-retry-exceeded",
    }
}

/// The end of a queue pair as a text.
pub(crate) fn describe(end: &QpError) -> String {
    match end.work {
        Some(failed) => format!("{}; {:?} failed: {}", end.cause, failed.work, failed.status),
        None => end.cause.to_string(),
    }
}
