//! A process for each check, with its environment and a limit of time.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use braid_lab::process::{Program, Stream};

use crate::Datapath;
use crate::speed::Measured;
use crate::table::Table;

/// Time limit of a check.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of one round of measurements.
const ROUND_LIMIT: Duration = Duration::from_secs(60);

/// NCCL's environment variables that the plugin obeys.
const NCCL_VARIABLES: [&str; 3] = ["NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_COMM_ID"];

/// The outcome of a check.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
}

/// Number of checks that run at the same time. Most of them wait most of the time.
const AT_ONCE: usize = 3;

/// The plugin, and the network that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) plugin: &'a Path,
    /// `BRAID_IFNAME`.
    pub(crate) ifname: &'a str,
    /// `BRAID_RAILS`; `None`: the interface is the device.
    pub(crate) rails: Option<&'a str>,
    /// `BRAID_DATAPATH`.
    pub(crate) datapath: Datapath,
}

/// A check against a table.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// The check's variables for the plugin.
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) table: Table,
}

/// Runs checks and returns their outcomes in order.
///
/// # Errors
/// A process does not start.
pub(crate) fn run_all(work: &[Job], subject: Subject<'_>) -> Result<Vec<Outcome>, String> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let run_some = || {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = work.get(place) else { break };
                let outcome = run(job, subject);
                outcomes.lock().expect("nothing panics with it").push((place, outcome));
            }
        };
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(run_some)));
    });
    let mut outcomes = outcomes.into_inner().expect("nothing panics with it");
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn run(job: &Job, subject: Subject<'_>) -> Result<Outcome, String> {
    let mut command = myself(subject)?;
    command.args(["--check", job.check, "--versions", &job.table.token()]);
    command.envs(job.env.iter().copied());
    let mut program = start(&mut command)?;
    let status = match program.status(LIMIT) {
        Ok(status) if status.success() => return Ok(Outcome::Passed),
        Ok(status) => status,
        Err(error) => return Ok(Outcome::Failed(error.to_string())),
    };
    let [said, complaints] = [Stream::Out, Stream::Err].map(|stream| program.text(stream));
    Ok(Outcome::Failed(match status.signal() {
        Some(signal) => format!("crashed with signal {signal} {complaints}"),
        None => said + &complaints,
    }))
}

/// Measures in a process of its own.
///
/// # Errors
/// The plugin or TCP failed.
pub(crate) fn measure(subject: Subject<'_>, rounds: u32) -> Result<Measured, String> {
    let mut command = myself(subject)?;
    command.args(["--measure", "--rounds", &rounds.to_string()]);
    let mut program = start(&mut command)?;
    program.wait(ROUND_LIMIT * rounds).map_err(|error| error.to_string())?;
    let said = program.text(Stream::Out);
    serde_json::from_str(said.trim()).map_err(|error| format!("{error} in `{said}`"))
}

/// Starts a process whose output is read. It is in this program's group, so that both end together.
fn start(command: &mut Command) -> Result<Program, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Program::start_in_our_group(command).map_err(|error| error.to_string())
}

/// This program, with no `BRAID_*` variables but those of the network.
fn myself(subject: Subject<'_>) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("BRAID_") || NCCL_VARIABLES.contains(&&*text) {
            command.env_remove(name);
        }
    }
    command.env("BRAID_IFNAME", subject.ifname).env("BRAID_DATAPATH", subject.datapath.name());
    command.envs(subject.rails.map(|rails| ("BRAID_RAILS", rails)));
    command.arg("--plugin").arg(subject.plugin);
    Ok(command)
}
