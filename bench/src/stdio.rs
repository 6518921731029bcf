//! Standard output and standard error, either of which may be closed or full.

use std::fmt;
use std::fs::File;
use std::io::{self, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::Failure;

/// The prefix of messages.
pub(crate) const PROGRAM: &str = "braid-perf";

/// Whether standard output is for results in JSON only.
static IS_FOR_JSON: AtomicBool = AtomicBool::new(false);

/// The destination of tables.
pub(crate) enum Sink {
    Output(StdoutLock<'static>),
    Error(StderrLock<'static>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Output(out) => out.write(bytes),
            Sink::Error(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Output(out) => out.flush(),
            Sink::Error(out) => out.flush(),
        }
    }
}

/// Returns standard output for results in JSON. From now on tables go to standard error.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn take_for_json() -> io::Result<File> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    IS_FOR_JSON.store(true, Relaxed);
    Ok(file)
}

/// Writes to the destination of tables: standard output, or standard error if that is for JSON.
///
/// # Errors
/// [`Failure::Output`].
pub(crate) fn print(write: impl FnOnce(&mut Sink) -> io::Result<()>) -> Result<(), Failure> {
    let mut sink = match IS_FOR_JSON.load(Relaxed) {
        true => Sink::Error(io::stderr().lock()),
        false => Sink::Output(io::stdout().lock()),
    };
    write(&mut sink).and_then(|()| sink.flush()).map_err(Failure::Output)
}

/// Prints a message on standard error. If nobody can read it, it is lost.
pub(crate) fn say(what: impl fmt::Display) {
    braid_lab::pages::say(PROGRAM, what);
}

/// Prints text on standard error without a prefix.
pub(crate) fn note(what: impl fmt::Display) {
    // In one write, because the other process of `--loopback` writes there too.
    _ = io::stderr().write_all(what.to_string().as_bytes());
}
