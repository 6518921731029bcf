//! A program that runs by itself, or starts its peer itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::process::{ProcessError, Program, log_to};

/// The output of a program, its time and its end.
pub(super) struct Ended {
    pub(super) said: String,
    pub(super) seconds: f64,
    /// Whether it ended with exit code 0, or why not.
    pub(super) ended: Result<(), ProcessError>,
}

/// Runs a command until its end or the limit. Both of its outputs go to the log.
pub(super) fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ended, Failure> {
    log_to(command, log)?;
    let start = Instant::now();
    let ended = Program::start(command)?.wait(limit);
    let seconds = start.elapsed().as_secs_f64();
    let said = fs::read_to_string(log)
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", log.display())))?;
    Ok(Ended { said, seconds, ended })
}

impl Ended {
    /// The failure, with everything that the program has said.
    pub(super) fn succeeded(self) -> Result<Self, Failure> {
        match self.ended {
            Ok(()) => Ok(self),
            Err(failure) => Err(Failure::new(format!("{failure}\n{}", self.said.trim_end()))),
        }
    }
}
