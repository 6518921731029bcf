//! Programs that run on hosts: their start, and the lines that this program prints as one of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::process::{ProcessError, Program};

use crate::failure::Failure;
use crate::pair::LISTEN_LIMIT;

/// Starts a program whose output is read. Error messages call it `the NAME`.
pub(crate) fn start(name: &str, mut command: Command) -> Result<Program, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(Program::start_in_our_group(&mut command)?.named(format!("the {name}")))
}

/// Returns the address at which a server listens, from its next line.
pub(crate) fn address(program: &mut Program) -> Result<SocketAddr, ProcessError> {
    let text = program.value("listening on ", LISTEN_LIMIT)?;
    text.parse().map_err(|_| program.error(&format!("listens on `{text}`, which is no address")))
}

/// Returns the figures by name from the next line, `report {..}`.
pub(crate) fn report(
    program: &mut Program,
    limit: Duration,
) -> Result<BTreeMap<String, f64>, ProcessError> {
    let json = program.value("report ", limit)?;
    serde_json::from_str(&json).map_err(|why| program.error(&format!("printed `{json}`: {why}")))
}
