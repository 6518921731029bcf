//! The other process of a raw peer: its start, its address, its report.

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::process::Program;
use clap::ValueEnum;

use super::error::{Context, PeerError};
use super::metrics::ServerReport;
use super::options::ServeOptions;

/// The hidden subcommand that runs [`super::serve`].
pub(crate) const SUBCOMMAND: &str = "peer-server";

/// Time limit for the other process to listen.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// A running server process. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    program: Program,
    address: SocketAddr,
}

impl Peer {
    /// Starts this executable again as a server and waits until it listens.
    ///
    /// # Errors
    /// The process does not start, or does not listen within five seconds.
    pub(crate) fn spawn(options: &ServeOptions) -> Result<Self, PeerError> {
        let executable = env::current_exe().context("find this executable")?;
        let mut command = Command::new(executable);
        command.args(arguments(options)).stdin(Stdio::null()).stdout(Stdio::piped());
        let program = Program::start_in_our_group(&mut command)?.named("the peer's other process");
        let mut peer = Self { program, address: SocketAddr::new(options.bind, 0) };
        peer.address = parse(&peer.value("listening on ", READY_LIMIT)?)?;
        Ok(peer)
    }

    /// The address at which the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the report of the server.
    ///
    /// # Errors
    /// [`PeerError::Timeout`] if it does not come within `limit`; the caller may ask again.
    pub(crate) fn report(&mut self, limit: Duration) -> Result<ServerReport, PeerError> {
        let json = self.value("report ", limit)?;
        serde_json::from_str(&json).map_err(|_| unexpected(&json))
    }

    /// The rest of the next line, which has to begin with `prefix`.
    fn value(&mut self, prefix: &'static str, limit: Duration) -> Result<String, PeerError> {
        self.program.value(prefix, limit).map_err(|error| match error.is_timeout {
            true => PeerError::Timeout { what: prefix.trim(), after: limit },
            false => error.into(),
        })
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

fn parse(address: &str) -> Result<SocketAddr, PeerError> {
    address.parse().map_err(|_| unexpected(address))
}

fn unexpected(line: &str) -> PeerError {
    PeerError::Process(format!("the peer's other process printed {line:?}"))
}
/// Prints the address of a server for [`Peer::spawn`].
pub(super) fn announce(out: &mut impl Write, address: SocketAddr) -> Result<(), PeerError> {
    writeln!(out, "listening on {address}").context("announce the address")?;
    out.flush().context("announce the address")
}
