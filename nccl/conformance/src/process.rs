//! A process for each check, with its variables and a limit of time.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Datapath;
use crate::checks::Check;
use crate::speed::Measured;

/// A check that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// The same for one round of measurements.
const ROUND_LIMIT: Duration = Duration::from_secs(60);

/// Variables of NCCL's that the plugin obeys.
const NCCL_VARIABLES: [&str; 3] = ["NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_COMM_ID"];

/// The outcome of a check.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
}

/// Checks that run at the same time: most of them mostly wait.
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

/// Runs checks against versions of the table; their outcomes, in order.
///
/// # Errors
/// A process could not be made.
pub(crate) fn run_all(
    work: &[(&Check, u32)],
    subject: Subject<'_>,
) -> Result<Vec<Outcome>, String> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let run_some = || {
            while let Some((check, version)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = run(check, *version, subject);
                let place = (check.name, *version);
                outcomes.lock().expect("nothing panics with it").push((place, outcome));
            }
        };
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(run_some)));
    });
    let mut outcomes = outcomes.into_inner().expect("nothing panics with it");
    let order = |place: &(&str, u32)| work.iter().position(|(c, v)| (c.name, *v) == *place);
    outcomes.sort_by_key(|(place, _)| order(place));
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs a check against one version of the table.
fn run(check: &Check, version: u32, subject: Subject<'_>) -> Result<Outcome, String> {
    let mut command = myself(subject)?;
    command.args(["--check", check.name, "--versions", &version.to_string()]);
    command.envs(check.env.iter().copied());
    let ended = wait(command.spawn().map_err(|error| error.to_string())?, LIMIT)?;
    Ok(match ended.status {
        None => Outcome::Failed(format!("hangs: not done after {LIMIT:?}")),
        Some(status) if status.success() => Outcome::Passed,
        Some(status) => Outcome::Failed(match status.signal() {
            Some(signal) => format!("crashed with signal {signal} {}", ended.complaints),
            None => ended.said + &ended.complaints,
        }),
    })
}

/// Measures in a process of its own.
///
/// # Errors
/// The plugin or TCP failed.
pub(crate) fn measure(subject: Subject<'_>, rounds: u32) -> Result<Measured, String> {
    let mut command = myself(subject)?;
    command.args(["--measure", "--rounds", &rounds.to_string()]);
    let child = command.spawn().map_err(|error| error.to_string())?;
    let ended = wait(child, ROUND_LIMIT * rounds)?;
    match ended.status {
        Some(status) if status.success() => serde_json::from_str(ended.said.trim())
            .map_err(|error| format!("{error} in `{}`", ended.said)),
        Some(status) => Err(format!("measuring failed: {status} {}", ended.complaints)),
        None => Err(format!("measuring hangs: {}", ended.complaints)),
    }
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
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

struct Ended {
    /// `None`: it did not end by itself.
    status: Option<ExitStatus>,
    said: String,
    complaints: String,
}

fn wait(mut child: Child, limit: Duration) -> Result<Ended, String> {
    // Read beside waiting: a full pipe would stop the child.
    let out = child.stdout.take().map(read_on);
    let err = child.stderr.take().map(read_on);
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break Some(status);
        }
        if since.elapsed() > limit {
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let text = |reader: Option<JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default().trim().to_owned()
    };
    Ok(Ended { status, said: text(out), complaints: text(err) })
}

fn read_on(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What has been read before an error is said all the same.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
