//! `braid-perf peer-client`: the measuring end of a raw peer as a process of its own, for other
//! hosts.
//!
//! The caller has started the server before and passes its address. `ceiling`, which has both ends
//! on this machine, measures in its own process instead.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;

use super::metrics::Metrics;
use super::{
    Context, PeerError, PeerKind, Timing, TransportOptions, ping_pong, tcp, tcp_ping_pong, udp_gso,
};
#[cfg(feature = "quic")]
use super::{quic, tls};

/// The hidden subcommand that runs [`run`].
pub(crate) const SUBCOMMAND: &str = "peer-client";

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
        let mut words = vec![SUBCOMMAND.to_owned(), kind.get_name().to_owned()];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--to", self.to.to_string());
        option("--seconds", self.seconds.to_string());
        option("--warm-up", self.warm_up.to_string());
        option("--bytes", self.bytes.to_string());
        words.extend(self.checked.then(|| "--checked".to_owned()));
        words.extend(self.transport.arguments());
        words
    }

    fn timing(&self) -> Result<Timing, PeerError> {
        let time = |seconds| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| PeerError::Usage(format!("{seconds} seconds are not possible")))
        };
        Ok(Timing { warm_up: time(self.warm_up)?, duration: time(self.seconds)? })
    }
}

/// Sends, measures, and prints the result: `report {"NAME_UNIT": FIGURE, ..}`.
///
/// # Errors
/// A socket call fails, or the server does not answer.
pub(crate) fn run(options: &ClientOptions, out: &mut impl Write) -> Result<(), PeerError> {
    let metrics = measure(options)?;
    let json = serde_json::to_string(&metrics).expect("numbers by name always serialise");
    writeln!(out, "report {json}").context("report")
}

fn measure(options: &ClientOptions) -> Result<Metrics, PeerError> {
    let timing = options.timing()?;
    match options.kind {
        PeerKind::UdpGso => udp_gso::send(options, timing),
        PeerKind::Tcp => tcp::send(options, timing),
        PeerKind::UdpPingPong => ping_pong::play(options, timing),
        PeerKind::TcpPingPong => tcp_ping_pong::play(options, timing),
        #[cfg(feature = "quic")]
        PeerKind::Tls => tls::send(options, timing),
        #[cfg(feature = "quic")]
        PeerKind::Quic => quic::send(options, timing),
        #[cfg(feature = "quic")]
        PeerKind::QuicPingPong => quic::play(options, timing),
        #[cfg(not(feature = "quic"))]
        PeerKind::Tls | PeerKind::Quic | PeerKind::QuicPingPong => Err(super::without_quic()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn options_survive_the_command_line() {
        let to = "10.80.0.1:4000".parse().expect("an address");
        let mut options = ClientOptions::new(PeerKind::UdpPingPong, to, 0.25);
        options.checked = true;
        (options.transport.blocking, options.transport.payload) = (true, 1408);
        let words = ["braid-perf".to_owned()].into_iter().chain(options.arguments());
        let Command::PeerClient(read) = Cli::try_parse_from(words).expect("understood").command
        else {
            panic!("another command");
        };
        assert_eq!((read.kind, read.to, read.seconds), (options.kind, to, 0.25));
        let transport = read.transport;
        assert_eq!((transport.blocking, read.checked, transport.payload), (true, true, 1408));
    }
}
