//! Standard output and standard error, either of which may be closed or full.

use std::fmt;
use std::io::{self, StdoutLock, Write};

use crate::failure::Failure;

/// Writes to standard output.
///
/// # Errors
/// [`Failure::Output`].
pub(crate) fn print(
    write: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Says something on standard error. Where nobody can hear it, nobody does.
pub(crate) fn say(what: impl fmt::Display) {
    // In one piece: the other process of `--loopback` writes there, too.
    _ = io::stderr().write_all(format!("braid-perf: {what}\n").as_bytes());
}
