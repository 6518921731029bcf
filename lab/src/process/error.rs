//! The error of a child process.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A program that does not start, fails, hangs or prints something else than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessError {
    /// The program and its fault.
    pub what: String,
    /// Its standard error, if that was a pipe.
    pub stderr: String,
    /// Whether the program was too slow.
    pub is_timeout: bool,
}

impl ProcessError {
    pub(super) fn new(what: String, stderr: &str) -> Self {
        Self { what, stderr: stderr.trim().to_owned(), is_timeout: false }
    }

    pub(super) fn start(name: &str, error: &io::Error) -> Self {
        Self::new(format!("cannot start {name}: {error}"), "")
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.stderr.is_empty(), self.stderr.contains('\n')) {
            (true, _) => f.write_str(&self.what),
            (false, false) => write!(f, "{}: {}", self.what, self.stderr),
            (false, true) => write!(f, "{}:\n{}", self.what, self.stderr),
        }
    }
}

impl std::error::Error for ProcessError {}

/// An exit status in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
