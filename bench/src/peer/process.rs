//! The other process: started, listened to with a limit on every wait, killed when dropped.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use super::metrics::ServerReport;
use super::{Context, PeerError, ServeOptions};

/// The hidden subcommand that runs [`super::serve`].
pub(crate) const SUBCOMMAND: &str = "peer-server";

/// Time limit for the other process to listen.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// A running server process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    lines: Receiver<String>,
    address: SocketAddr,
}

impl Peer {
    /// Starts this executable again as a server and waits until it listens.
    ///
    /// # Errors
    /// When the process does not start, or does not listen within five seconds.
    pub(crate) fn spawn(options: &ServeOptions) -> Result<Self, PeerError> {
        let executable = env::current_exe().context("find this executable")?;
        let mut child = Command::new(executable)
            .args(arguments(options))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the peer's other process")?;
        let lines = forward_lines(child.stdout.take().expect("stdout is piped"));
        let mut peer = Self { child, lines, address: SocketAddr::new(options.bind, 0) };
        peer.address = parse(&peer.line("listening on ", READY_LIMIT)?)?;
        Ok(peer)
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the server's last word.
    ///
    /// # Errors
    /// [`PeerError::Timeout`] when it has not come within `limit`; asking again is allowed.
    pub(crate) fn report(&self, limit: Duration) -> Result<ServerReport, PeerError> {
        let line = self.line("report ", limit)?;
        serde_json::from_str(&line).map_err(|_| unexpected(&line))
    }

    /// The next line, which has to begin with `prefix`; returns the rest of it.
    fn line(&self, prefix: &'static str, limit: Duration) -> Result<String, PeerError> {
        let line = self.lines.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => PeerError::Timeout { what: prefix.trim(), after: limit },
            RecvTimeoutError::Disconnected => PeerError::Process("ended early".to_owned()),
        })?;
        line.strip_prefix(prefix).map(str::to_owned).ok_or_else(|| unexpected(&line))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line that makes `options` again in the other process.
pub(crate) fn arguments(options: &ServeOptions) -> Vec<String> {
    let kind = options.kind.to_possible_value().expect("no kind is skipped");
    let mut words = vec![SUBCOMMAND.to_owned(), kind.get_name().to_owned()];
    words.extend(["--bind".to_owned(), options.bind.to_string()]);
    words.extend(options.transport.arguments());
    words
}

/// Reads lines on a thread of its own, so that waiting for one can time out.
fn forward_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn parse(address: &str) -> Result<SocketAddr, PeerError> {
    address.parse().map_err(|_| unexpected(address))
}

fn unexpected(line: &str) -> PeerError {
    PeerError::Process(format!("said {line:?}"))
}
