//! The options of both ends of a raw peer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::error::PeerError;

/// The hidden subcommand that runs [`super::client::run`].
pub(crate) const CLIENT_SUBCOMMAND: &str = "peer-client";

/// Payload bytes of a segment if the MTU allows it.
pub(crate) const DEFAULT_PAYLOAD_BYTES: usize = 4096;

/// Congestion control of both ends, independent of the kernel's default. On a path without a queue
/// of its own, bbr paces itself far below the capacity of the machine.
pub(crate) const DEFAULT_CONGESTION: &str = "cubic";

/// The name of the kernel's default congestion control.
pub(crate) const SYSTEM_CONGESTION: &str = "system";

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
    #[arg(long, default_value_t = DEFAULT_PAYLOAD_BYTES)]
    pub(crate) payload: usize,
    /// Congestion control of the stream, or `system` for the kernel's default (tcp and tls only).
    #[arg(long, default_value = DEFAULT_CONGESTION)]
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
            payload: DEFAULT_PAYLOAD_BYTES,
            congestion: DEFAULT_CONGESTION.to_owned(),
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

/// Options of the measuring end.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClientOptions {
    /// The transport.
    #[arg(value_enum)]
    pub(crate) kind: PeerKind,
    /// The address of the server.
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// Seconds of the measurement. Data in flight at its end still counts, with the time to deliver
    /// it.
    #[arg(long)]
    pub(crate) seconds: f64,
    /// Seconds of traffic before the measurement. It fills the buffers of a slow link, which drain
    /// within the measurement.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) warm_up: f64,
    /// Bytes of a write (tcp, tls), or of a message (ping-pongs).
    #[arg(long, default_value_t = 64 << 10)]
    pub(crate) bytes: usize,
    /// Whether each payload has a CRC-32 that is made and checked (udp-gso only).
    #[arg(long)]
    pub(crate) checked: bool,
    #[command(flatten)]
    pub(crate) transport: TransportOptions,
}

impl ClientOptions {
    /// Creates options for `kind` with defaults for everything else; `to` is the address of the
    /// server.
    pub(crate) fn new(kind: PeerKind, to: SocketAddr, seconds: f64) -> Self {
        Self {
            kind,
            to,
            seconds,
            warm_up: 0.0,
            bytes: 64 << 10,
            checked: false,
            transport: TransportOptions::default(),
        }
    }

    /// Returns the command line that recreates these options in the other process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let kind = self.kind.to_possible_value().expect("no kind is skipped");
        let mut words = vec![CLIENT_SUBCOMMAND.to_owned(), kind.get_name().to_owned()];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--to", self.to.to_string());
        option("--seconds", self.seconds.to_string());
        option("--warm-up", self.warm_up.to_string());
        option("--bytes", self.bytes.to_string());
        words.extend(self.checked.then(|| "--checked".to_owned()));
        words.extend(self.transport.arguments());
        words
    }

    /// Returns the times of the measurement.
    pub(super) fn timing(&self) -> Result<Timing, PeerError> {
        let time = |seconds| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| PeerError::Usage(format!("{seconds} seconds are not possible")))
        };
        Ok(Timing { warm_up: time(self.warm_up)?, duration: time(self.seconds)? })
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
