//! Standard output and standard error, either of which may be closed or full.

use std::fmt;
use std::fs::File;
use std::io::{self, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::Failure;

/// What messages begin with.
pub(crate) const PROGRAM: &str = "braid-perf";

/// Whether standard output is for results in JSON: then nothing else goes there.
static IS_FOR_JSON: AtomicBool = AtomicBool::new(false);

/// Where tables go.
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

/// Standard output for results in JSON; from now on tables go to standard error.
///
/// # Errors
/// It is closed.
pub(crate) fn take_for_json() -> io::Result<File> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    IS_FOR_JSON.store(true, Relaxed);
    Ok(file)
}

/// Writes where tables go: to standard output, or to standard error where that is for JSON.
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

/// Says what is not part of the results on standard error. Where nobody can hear it, nobody does.
pub(crate) fn say(what: impl fmt::Display) {
    braid_lab::pages::say(PROGRAM, what);
}

/// As [`say`], as it is.
pub(crate) fn note(what: impl fmt::Display) {
    // In one piece: the other process of `--loopback` writes there, too.
    _ = io::stderr().write_all(what.to_string().as_bytes());
}
