//! `braid-perf peer-client`: the measuring end of a raw peer as a process of its own, for other
//! hosts.
//!
//! The caller has started the server before and passes its address. `ceiling`, which has both ends
//! on this machine, measures in its own process instead.

use std::io::Write;

use super::error::{Context, PeerError};
use super::metrics::Metrics;
use super::options::{ClientOptions, PeerKind};
use super::{ping_pong, tcp, tcp_ping_pong, udp_gso};
#[cfg(feature = "quic")]
use super::{quic, tls};

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
