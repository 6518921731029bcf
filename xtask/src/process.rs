//! Child processes of `braid-lab`, with the failures of a chore.

use std::process::Command;

pub use braid_lab::process::{ProcessError, Program, log_to, show};

use crate::Failure;

/// Runs a command on our own terminal to its end.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    Ok(braid_lab::process::run(command)?)
}

/// Runs a command to its end and returns its standard output.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    Ok(braid_lab::process::output(command)?)
}

/// On SIGINT, SIGTERM and SIGHUP, ends all process groups and networks, and exits.
pub fn clean_up_when_interrupted() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        braid_lab::process::end_all();
        braid_lab::remove_own();
        eprintln!("interrupted");
        std::process::exit(130);
    })
    .map_err(|e| Failure::new(format!("cannot install a signal handler: {e}")))
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Self {
        Self::new(error.to_string())
    }
}
