//! A program at both ends of the loopback, or on two hosts.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use braid_lab::VethPair;

use super::table::ProgramCase;
use crate::Failure;
use crate::process::{Program, log_to};

/// Time limit of a case, more than ten times what it takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The message of perftest if it cannot measure the clock of its processor, as on a busy machine.
const NO_CLOCK: &str = "Can't produce a report";
const ATTEMPTS: usize = 3;
/// Where programs exchange what they need to connect: over TCP, or by rdma_cm.
pub(super) const PORT: u16 = 18_615;

/// Both ends of a case.
pub(super) struct ProgramPair<'a> {
    braid_run: &'a Path,
    case: &'a ProgramCase,
    logs: &'a Path,
    /// Where the server and the client run; none: on the loopback.
    hosts: Option<&'a VethPair>,
}

/// An end of a case.
#[derive(Clone, Copy)]
pub(super) enum End {
    Server,
    Client,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Server => "server",
            End::Client => "client",
        }
    }
}

impl<'a> ProgramPair<'a> {
    /// On the loopback. Starts nothing yet.
    pub(super) fn new(braid_run: &'a Path, case: &'a ProgramCase, logs: &'a Path) -> Self {
        ProgramPair { braid_run, case, logs, hosts: None }
    }

    /// Between two hosts.
    pub(super) fn between(self, hosts: &'a VethPair) -> Self {
        ProgramPair { hosts: Some(hosts), ..self }
    }

    /// Runs both ends, again where perftest could not find out its processor's clock. Returns how
    /// many seconds that took.
    pub(super) fn run(&self) -> Result<f64, Failure> {
        for _ in 1..ATTEMPTS {
            match self.run_once() {
                Err(_) if self.has_no_clock() => {}
                ended => return ended,
            }
        }
        self.run_once()
    }

    fn has_no_clock(&self) -> bool {
        [End::Server, End::Client].iter().any(|end| self.said(*end).contains(NO_CLOCK))
    }

    fn run_once(&self) -> Result<f64, Failure> {
        let start = Instant::now();
        let mut server = self.start(End::Server)?;
        self.wait_for_listener(&server)?;
        let mut client = self.start(End::Client)?;
        let ended = client.wait(LIMIT).and_then(|()| server.wait(LIMIT));
        ended.map_err(|failure| self.story(&failure.into()))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// One end, with the options that only it has.
    pub(super) fn start(&self, end: End) -> Result<Program, Failure> {
        let (program, own) = match end {
            End::Server => (self.case.server, self.case.ends.0),
            End::Client => (self.case.program, self.case.ends.1),
        };
        let server = self.hosts.map_or(Ipv4Addr::LOCALHOST, |pair| pair.hosts()[0].ip);
        let own = own.replace("{host}", &server.to_string());
        let mut command = match self.hosts {
            None => Command::new(self.braid_run),
            Some(pair) => pair.command_on(end as usize, self.braid_run),
        };
        command
            .arg(program)
            .args(self.case.options.split_whitespace())
            .args(self.port_option())
            .args(own.split_whitespace())
            .envs(self.case.settings.iter().copied());
        log_to(&mut command, &self.log(end))?;
        Ok(Program::start(&mut command)?)
    }

    fn port_option(&self) -> Vec<String> {
        match self.case.port {
            None => vec!["-p".to_owned(), PORT.to_string()],
            Some(_) => Vec::new(),
        }
    }

    fn log(&self, end: End) -> PathBuf {
        self.logs.join(format!("{}.{}.log", self.case.program, end.name()))
    }

    /// A failure with the output of both ends.
    fn story(&self, failure: &Failure) -> Failure {
        let mut text = failure.to_string();
        for end in [End::Server, End::Client] {
            text.push_str(&format!("\n--- {}:\n{}", end.name(), self.said(end)));
        }
        Failure::new(text)
    }

    /// The output of one end.
    pub(super) fn said(&self, end: End) -> String {
        fs::read_to_string(self.log(end)).unwrap_or_default().trim_end().to_owned()
    }

    /// Until the server can be connected to, wherever it runs. Trying would take its only
    /// connection.
    pub(super) fn wait_for_listener(&self, server: &Program) -> Result<(), Failure> {
        let port = self.case.port.unwrap_or(PORT);
        match braid_lab::wait_for_port(server.child.id(), port, LIMIT) {
            true => Ok(()),
            false => {
                let what = format!("the server listens neither at TCP nor at UDP port {port}");
                Err(Failure::new(what))
            }
        }
    }
}
