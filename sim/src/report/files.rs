//! The files of a report.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::RunFailure;
use crate::simulation::Simulation;

/// Writes `text` to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), RunFailure> {
    fs::write(path, text).map_err(|why| RunFailure::Write { path: path.to_owned(), why })
}

/// Creates a folder and its parents.
///
/// # Errors
/// The folder cannot be created.
pub fn make_folder(path: &Path) -> Result<(), RunFailure> {
    fs::create_dir_all(path).map_err(|why| RunFailure::Write { path: path.to_owned(), why })
}

/// Returns a value as indented JSON.
///
/// # Panics
/// Panics if the value has no JSON form, such as a map whose keys are not text.
pub fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results have a JSON form") + "\n"
}

/// Writes [`json_text`] to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunFailure> {
    write_text(path, &json_text(value))
}

/// Writes a line for each message of a run.
pub(super) fn write_messages(folder: &Path, seed: u64, run: &Simulation) -> Result<(), RunFailure> {
    let mut text =
        String::from("message,src,dst,bytes,queue,group,posted_us,delivered_us,acknowledged_us\n");
    for ((message, span), number) in run.workload().messages.iter().zip(run.spans()).zip(0..) {
        let [posted, delivered, acknowledged] =
            [span.posted, span.delivered, span.acknowledged].map(|at| at.as_micros_f64());
        writeln!(
            text,
            "{number},{},{},{},{},{},{posted},{delivered},{acknowledged}",
            message.src, message.dst, message.bytes, message.queue, message.group
        )
        .expect("a string takes all that is written to it");
    }
    write_text(&folder.join(format!("messages-{seed}.csv")), &text)
}
