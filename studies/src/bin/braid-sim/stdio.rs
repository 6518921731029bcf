//! Standard output and standard error, either of which may be closed or full.

use std::io::{self, Write};
use std::path::Path;

use braid_sim::report;
use serde::Serialize;

use crate::failure::Failure;

/// The name of standard output for `--json`.
const STANDARD_OUTPUT: &str = "-";

/// Prints a text on standard output.
///
/// # Errors
/// [`Failure::Output`].
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Prints tables on standard output, or on standard error if `--json -` uses standard output.
///
/// # Errors
/// [`Failure::Output`].
pub(crate) fn print_tables(text: &str, json: Option<&Path>) -> Result<(), Failure> {
    match json.is_some_and(is_standard_output) {
        true => io::stderr().write_all(text.as_bytes()).map_err(Failure::Output),
        false => print(text),
    }
}

/// Writes results to the destination of `--json`, if it is given; `-` is standard output.
///
/// # Errors
/// The file cannot be written, or [`Failure::Output`].
pub(crate) fn write_json(results: &impl Serialize, json: Option<&Path>) -> Result<(), Failure> {
    match json {
        None => Ok(()),
        Some(path) if is_standard_output(path) => print(&report::json_text(results)),
        Some(path) => Ok(report::write_json(path, results)?),
    }
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}
