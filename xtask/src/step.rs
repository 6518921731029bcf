//! One step of `cargo xtask test`: a command whose output is kept, and shown if nothing else is.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Failure, process};

/// Lines of a failed step's output that are repeated at the very end.
const TAIL_LINES: usize = 60;

/// A step that ran.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The time that it took.
    pub took: Duration,
    /// Why it failed, and the end of its output.
    pub failure: Option<String>,
}

/// Where the output of a step is to be seen, besides its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// On the terminal as well.
    AsItComes,
    /// Nowhere: that of another step is on the terminal.
    InItsLog,
}

/// Runs `command` under a heading, and copies its output to `log`. Returns nothing if `stop` became
/// true before the command ended.
pub fn run(
    name: &str,
    command: &mut Command,
    limit: Duration,
    log: &Path,
    shown: Shown,
    stop: &dyn Fn() -> bool,
) -> Option<Outcome> {
    println!("\n==> {name}: {}", process::show(command));
    let start = Instant::now();
    let result = match shown {
        Shown::AsItComes => tee(command, limit, log, stop, io::stdout(), io::stderr()),
        Shown::InItsLog => tee(command, limit, log, stop, io::sink(), io::sink()),
    };
    let took = start.elapsed();
    if matches!(result, Ok(false)) {
        println!("<== {name}: stopped after {:.1} s", took.as_secs_f64());
        return None;
    }
    let verdict = if result.is_ok() { "passed" } else { "FAILED" };
    println!("<== {name}: {verdict} after {:.1} s", took.as_secs_f64());
    let failure = result.err().map(|failure| story(&failure, log));
    Some(Outcome { took, failure })
}

fn tee(
    command: &mut Command,
    limit: Duration,
    log: &Path,
    stop: &dyn Fn() -> bool,
    stdout: impl Write + Send + 'static,
    stderr: impl Write + Send + 'static,
) -> Result<bool, Failure> {
    let file = create(log)
        .map_err(|e| Failure::new(format!("cannot write the log {}: {e}", log.display())))?;
    let file = Arc::new(Mutex::new(file));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = process::Program::start(command)?;
    let out = copy(program.child.stdout.take().expect("piped"), stdout, &file);
    let err = copy(program.child.stderr.take().expect("piped"), stderr, &file);
    let result = program.wait_unless(limit, stop);
    // Processes that still hold the pipes end here; otherwise the copies would wait for them.
    drop(program);
    let _ = (out.join(), err.join());
    Ok(result?)
}

fn create(log: &Path) -> io::Result<File> {
    fs::create_dir_all(log.parent().unwrap_or(Path::new(".")))?;
    File::create(log)
}

fn copy(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    log: &Arc<Mutex<File>>,
) -> JoinHandle<()> {
    let log = Arc::clone(log);
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            // A closed terminal or a full disk must not stop the step itself.
            let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
            let _ = log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&buffer[..length]);
        }
    })
}

fn story(failure: &Failure, log: &Path) -> String {
    match tail(log) {
        Ok(tail) => format!("{failure}\n  log: {}\n{tail}", log.display()),
        Err(_) => failure.to_string(),
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let bytes = fs::read(log)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    let lines: Vec<String> = lines[from..].iter().map(|line| format!("  | {line}")).collect();
    Ok(lines.join("\n"))
}

/// Where the log of a step lies.
pub fn log_path(target: &Path, name: &str) -> PathBuf {
    target.join("xtask").join(format!("{name}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Runs a script. Returns its result, its log, and the path of the log.
    fn sh(name: &str, script: &str) -> (Result<bool, Failure>, String, PathBuf) {
        let log = log_path(&std::env::temp_dir(), &format!("{name}-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let result = tee(&mut command, LIMIT, &log, &|| false, io::sink(), io::sink());
        let text = fs::read_to_string(&log).expect("the log is there");
        (result, text, log)
    }

    #[test]
    fn output_of_both_streams_reaches_the_log() {
        let (result, text, log) = sh("both", "echo out; echo err >&2");
        assert!(result.is_ok());
        assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
        fs::remove_file(log).expect("the log can be removed");
    }

    #[test]
    fn a_command_is_stopped_when_told() {
        let log = log_path(&std::env::temp_dir(), &format!("stopped-{}", std::process::id()));
        let mut command = Command::new("sleep");
        command.arg("1000");
        let ended = tee(&mut command, LIMIT, &log, &|| true, io::sink(), io::sink());
        assert!(!ended.expect("no failure"));
        fs::remove_file(log).expect("the log can be removed");
    }

    #[test]
    fn a_failure_shows_the_end_of_the_output() {
        let (result, _, log) = sh("fails", "seq 1000; exit 1");
        let story = story(&result.expect_err("exit 1 is a failure"), &log);
        assert!(story.contains("exit code 1") && story.ends_with("  | 1000"), "{story}");
        assert!(!story.contains("| 900\n"), "too much of it");
        fs::remove_file(log).expect("the log can be removed");
    }
}
