//! A program at both ends of the loopback.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::Case;
use crate::Failure;
use crate::process::Group;

/// No case takes a tenth of this on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Where programs exchange what they need to connect, over TCP.
pub(super) const PORT: u16 = 18_615;

/// Both ends of a case.
pub(super) struct Pair<'a> {
    braid_run: &'a Path,
    case: &'a Case,
    logs: &'a Path,
}

impl<'a> Pair<'a> {
    /// Starts nothing yet.
    pub(super) fn new(braid_run: &'a Path, case: &'a Case, logs: &'a Path) -> Self {
        Pair { braid_run, case, logs }
    }

    /// Runs both ends. Returns how many seconds that took.
    pub(super) fn run(&self) -> Result<f64, Failure> {
        let start = Instant::now();
        let mut server = self.start(self.case.ends.0, "server")?;
        wait_for_listener()?;
        let mut client = self.start(self.case.ends.1, "client")?;
        let ended = client.wait(LIMIT).and_then(|()| server.wait(LIMIT));
        ended.map_err(|failure| self.story(&failure))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// One end, with the options that only it has.
    pub(super) fn start(&self, own: &str, end: &str) -> Result<Group, Failure> {
        let cannot = |e| Failure::new(format!("cannot write {}: {e}", self.log(end).display()));
        let log = File::create(self.log(end)).map_err(cannot)?;
        let mut command = Command::new(self.braid_run);
        command
            .arg(self.case.program)
            .args(self.case.options.split_whitespace())
            .args(["-p", &PORT.to_string()])
            .args(own.split_whitespace())
            .envs(self.case.settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(cannot)?)
            .stderr(log);
        Group::start(&mut command)
    }

    fn log(&self, end: &str) -> PathBuf {
        self.logs.join(format!("{}.{end}.log", self.case.program))
    }

    /// What failed, and what both ends have said.
    fn story(&self, failure: &Failure) -> Failure {
        let mut text = failure.to_string();
        for end in ["server", "client"] {
            text.push_str(&format!("\n--- {end}:\n{}", self.said(end)));
        }
        Failure::new(text)
    }

    /// What one end has said.
    pub(super) fn said(&self, end: &str) -> String {
        fs::read_to_string(self.log(end)).unwrap_or_default().trim_end().to_owned()
    }
}

/// Until the server can be connected to. Trying would take its only connection.
pub(super) fn wait_for_listener() -> Result<(), Failure> {
    match braid_lab::wait_for_listener(std::process::id(), PORT, LIMIT) {
        true => Ok(()),
        false => Err(Failure::new(format!("the server does not listen at TCP port {PORT}"))),
    }
}
