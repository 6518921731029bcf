//! Raw peers: the kernel's own transports on this machine, between two processes.
//!
//! Each peer has a *sender* and a *server*. The sender measures in the bench process or, between
//! hosts, in a process of its own ([`client`]). The server is this executable started again with
//! the hidden `peer-server` subcommand:
//!
//! ```text
//! bench process                      other process
//!   Peer::spawn ------------------->  serve: binds, prints "listening on ADDR"
//!   run: warm-up, measure  <======>   receives, acknowledges
//!   Peer::report  <-----------------  prints "report {json}" (its CPU time), exits
//! ```
//!
//! No process is pinned to a core. On an idle machine, pinning changes no figure by more than the
//! noise. On a busy one it costs every peer, because a pinned process cannot make way for others.
//! The price: while others keep a core busy, two spinning processes may share one, and a ping-pong
//! then takes milliseconds.

pub(crate) mod client;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod ping_pong;
pub(crate) mod process;
#[cfg(feature = "quic")]
pub(crate) mod quic;
pub(crate) mod tcp;
pub(crate) mod tcp_ping_pong;
#[cfg(feature = "quic")]
pub(crate) mod tls;
#[cfg(feature = "quic")]
mod tls_config;
pub(crate) mod udp_frame;
pub(crate) mod udp_gso;
pub(crate) mod udp_gso_server;

mod sys;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use braid_lab::process::ProcessError;

pub(crate) use metrics::Metrics;

/// Bytes of each side's working set.
pub(crate) const WORKING_SET_BYTES: usize = 8 << 20;

/// Time without a message after which a server fails.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Time without an answer after which a sender fails, over all its retries.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A transport of the kernel that Braid is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PeerKind {
    /// UDP with segmentation offload on the sending and on the receiving side.
    UdpGso,
    /// One TCP stream.
    Tcp,
    /// UDP ping-pong of one small datagram.
    UdpPingPong,
    /// TCP ping-pong of one small message over one stream.
    TcpPingPong,
    /// TLS 1.3 over one TCP stream.
    Tls,
    /// One stream of a QUIC connection.
    Quic,
    /// Ping-pong of one small message over such a stream.
    QuicPingPong,
}

/// The options that both ends of a peer share.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TransportOptions {
    /// Payload bytes of one UDP segment after its header (udp-gso), or of a datagram (quic).
    #[arg(long, default_value_t = udp_gso::DEFAULT_PAYLOAD_BYTES)]
    pub(crate) payload: usize,
    /// Congestion control of the stream, or `system` for the kernel's default (tcp and tls only).
    #[arg(long, default_value = tcp::DEFAULT_CONGESTION)]
    pub(crate) congestion: String,
    /// Sleep in the kernel until a message arrives (ping-pongs only).
    #[arg(long)]
    pub(crate) blocking: bool,
    /// File in which the server leaves its certificate for the client (quic and tls only).
    #[arg(long)]
    pub(crate) certificate: Option<PathBuf>,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            payload: udp_gso::DEFAULT_PAYLOAD_BYTES,
            congestion: tcp::DEFAULT_CONGESTION.to_owned(),
            blocking: false,
            certificate: None,
        }
    }
}

impl TransportOptions {
    /// Returns the command-line words that recreate these options.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut words = vec!["--payload".to_owned(), self.payload.to_string()];
        words.extend(["--congestion".to_owned(), self.congestion.clone()]);
        words.extend(self.blocking.then(|| "--blocking".to_owned()));
        if let Some(file) = &self.certificate {
            words.extend(["--certificate".to_owned(), file.display().to_string()]);
        }
        words
    }
}

/// The arguments of `braid-perf peer-server`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeOptions {
    /// The transport to serve.
    #[arg(value_enum)]
    pub(crate) kind: PeerKind,
    /// Address to listen on; the kernel chooses the port.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) bind: IpAddr,
    #[command(flatten)]
    pub(crate) transport: TransportOptions,
}

impl ServeOptions {
    /// Creates options for `kind` on `bind` with defaults for everything else.
    pub(crate) fn new(kind: PeerKind, bind: IpAddr) -> Self {
        Self { kind, bind, transport: TransportOptions::default() }
    }
}

/// The duration of a peer's run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Traffic before the measurement.
    pub(crate) warm_up: Duration,
    /// Traffic that is measured.
    pub(crate) duration: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { warm_up: Duration::from_millis(100), duration: Duration::from_secs(1) }
    }
}

/// The reason for an unfinished run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// A system call failed.
    #[error("{context}: {cause}")]
    Io {
        /// The attempted operation.
        context: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The other side was silent for too long.
    #[error("no {what} within {after:?}")]
    Timeout {
        /// The awaited event.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The other process ended early or printed something unexpected.
    #[error("{0}")]
    Process(String),
    /// A QUIC connection failed.
    #[cfg(feature = "quic")]
    #[error("QUIC: {0}")]
    Quic(String),
    /// TLS could not be set up.
    #[cfg(feature = "quic")]
    #[error("TLS: {0}")]
    Tls(String),
    /// An option is out of range.
    #[error("{0}")]
    Usage(String),
}

impl From<ProcessError> for PeerError {
    fn from(error: ProcessError) -> Self {
        PeerError::Process(error.to_string())
    }
}

/// Says what was attempted when the kernel refuses it.
trait Context<T> {
    /// Turns an `io::Error` into a [`PeerError`] that names `context`.
    fn context(self, context: &'static str) -> Result<T, PeerError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, context: &'static str) -> Result<T, PeerError> {
        self.map_err(|cause| PeerError::Io { context, cause })
    }
}

/// Serves one sender as the other process, and reports on stdout.
///
/// # Errors
/// A socket cannot be set up, or the sender is silent for ten seconds.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), PeerError> {
    let out = &mut io::stdout();
    let TransportOptions { payload, congestion, blocking, .. } = &options.transport;
    match options.kind {
        PeerKind::UdpGso => udp_gso_server::serve(options.bind, *payload, out),
        PeerKind::Tcp => tcp::serve(options.bind, congestion, out),
        PeerKind::UdpPingPong => ping_pong::serve(options.bind, *blocking, out),
        PeerKind::TcpPingPong => tcp_ping_pong::serve(options.bind, *blocking, out),
        #[cfg(feature = "quic")]
        PeerKind::Tls => tls::serve(options, out),
        #[cfg(feature = "quic")]
        PeerKind::Quic => quic::serve(options, false, out),
        #[cfg(feature = "quic")]
        PeerKind::QuicPingPong => quic::serve(options, true, out),
        #[cfg(not(feature = "quic"))]
        PeerKind::Tls | PeerKind::Quic | PeerKind::QuicPingPong => Err(without_quic()),
    }
}

/// Returns the error for a peer that this program was built without.
#[cfg(not(feature = "quic"))]
fn without_quic() -> PeerError {
    PeerError::Usage(
        "QUIC and TLS are not built in: cargo build -p braid-bench --features quic".to_owned(),
    )
}

/// Returns the CPU time of this process so far: all threads, user and system.
pub(crate) fn cpu_seconds() -> f64 {
    sys::process_cpu().as_secs_f64()
}

/// Returns the cores that this program may run on; empty if the kernel does not report them.
pub(crate) fn allowed_cores() -> Vec<usize> {
    sys::allowed_cores().unwrap_or_default()
}

/// Prints the address for the parent.
fn announce(out: &mut impl Write, address: SocketAddr) -> Result<(), PeerError> {
    writeln!(out, "listening on {address}").context("announce the address")?;
    out.flush().context("announce the address")
}
