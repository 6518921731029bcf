//! Commands: run to their end, shown as one would type them, with their output in a log.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ProcessError;
use super::error::describe;

/// Runs a command on the caller's terminal to its end.
///
/// # Errors
/// The command does not start, or its exit status is not 0.
pub fn run(command: &mut Command) -> Result<(), ProcessError> {
    let name = format!("`{}`", show(command));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ProcessError::new(format!("{name} failed: {}", describe(status)), "")),
        Err(e) => Err(ProcessError::start(&name, &e)),
    }
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// The command does not start, or its exit status is not 0.
pub fn output(command: &mut Command) -> Result<String, ProcessError> {
    let name = format!("`{}`", show(command));
    let output = command.output().map_err(|e| ProcessError::start(&name, &e))?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() {
        return Ok(stdout);
    }
    let why = if stderr.is_empty() { stdout } else { stderr };
    Err(ProcessError::new(format!("{name} failed: {}", describe(output.status)), &why))
}

/// Sends both outputs of a command to a file. Its standard input becomes empty.
///
/// # Errors
/// The file cannot be written.
pub fn log_to(command: &mut Command, log: &Path) -> Result<(), ProcessError> {
    let cannot = |e| ProcessError::new(format!("cannot write {}: {e}", log.display()), "");
    let file = File::create(log).map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(cannot)?).stderr(file);
    Ok(())
}

/// A command as one would type it, with the variables that are set for it.
#[must_use]
pub fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quote(&value?.to_string_lossy())))
    });
    let program = Path::new(command.get_program());
    let program = match program.file_name() {
        Some(name) if name == "cargo" => name.to_string_lossy(),
        _ => program.as_os_str().to_string_lossy(),
    };
    let arguments = command.get_args().map(|a| quote(&a.to_string_lossy()));
    let words: Vec<_> = variables.chain([program.into_owned()]).chain(arguments).collect();
    words.join(" ")
}

fn quote(word: &str) -> String {
    match word.contains([' ', '"', '*', '$', '\u{1f}']) {
        true => format!("'{word}'"),
        false => word.to_owned(),
    }
}
