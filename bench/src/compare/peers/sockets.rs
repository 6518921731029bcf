//! The kernel's own transports, TLS over its TCP and QUIC over its UDP, through the raw peers of
//! this program.

use std::path::PathBuf;

use super::super::case::{CompareCase, Family};
use super::super::place::Place;
use super::{ComparedPeer, PeerOutcome, limit};
use crate::failure::Failure;
use crate::peer::metrics::{ALL, GOODPUT, MESSAGE_RATE};
use crate::peer::options::{
    ClientOptions, DEFAULT_CONGESTION, PeerKind, SYSTEM_CONGESTION, ServeOptions, TransportOptions,
};
use crate::peer::process::arguments;
use crate::peer::{Metrics, udp_frame};
use crate::program;

/// Seconds of traffic before the measurement.
const WARM_UP: f64 = 0.05;
/// IPv4 and UDP.
const UDP_HEADERS: u32 = 28;
/// Payloads of raw UDP are multiples of a cache line.
const PAYLOAD_STEP: u32 = 64;

const TLS: &str = "TLS 1.3 over TCP cubic (rustls)";

/// One kind of socket with its options.
pub(in crate::compare) struct Sockets {
    name: &'static str,
    kind: PeerKind,
    checked: bool,
    congestion: &'static str,
}

const fn sockets(name: &'static str, kind: PeerKind) -> Sockets {
    Sockets { name, kind, checked: false, congestion: SYSTEM_CONGESTION }
}

impl Sockets {
    /// Returns all kinds of sockets, in the order of the tables.
    pub(in crate::compare) fn all() -> [Sockets; 9] {
        [
            sockets("raw UDP GSO/GRO", PeerKind::UdpGso),
            Sockets { checked: true, ..sockets("raw UDP GSO/GRO, CRC-32", PeerKind::UdpGso) },
            sockets("raw UDP ping-pong", PeerKind::UdpPingPong),
            sockets("TCP, the system's default", PeerKind::Tcp),
            Sockets { congestion: DEFAULT_CONGESTION, ..sockets("TCP cubic", PeerKind::Tcp) },
            sockets("TCP ping-pong", PeerKind::TcpPingPong),
            Sockets { congestion: DEFAULT_CONGESTION, ..sockets(TLS, PeerKind::Tls) },
            sockets("QUIC (quinn)", PeerKind::Quic),
            sockets("QUIC (quinn) ping-pong", PeerKind::QuicPingPong),
        ]
    }

    fn payload(&self, mtu: u32) -> usize {
        let room = mtu - UDP_HEADERS - udp_frame::HEADER_BYTES as u32;
        (room / PAYLOAD_STEP * PAYLOAD_STEP) as usize
    }

    /// Returns whether it needs the feature `quic`, which default builds lack.
    fn is_tls(&self) -> bool {
        matches!(self.kind, PeerKind::Tls | PeerKind::Quic | PeerKind::QuicPingPong)
    }

    /// Returns the file of a server's certificate for its client.
    fn certificate(&self, place: &Place, host: usize) -> Option<PathBuf> {
        self.is_tls().then(|| place.file(&format!("certificate-{host}")))
    }

    /// Returns the options of both ends for a server on this host.
    fn transport(&self, place: &Place, case: &CompareCase, server: usize) -> TransportOptions {
        TransportOptions {
            payload: self.payload(case.mtu),
            congestion: self.congestion.to_owned(),
            blocking: case.family == Family::LatencyBlocking,
            certificate: self.certificate(place, server),
        }
    }
}

impl ComparedPeer for Sockets {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn fits(&self, case: &CompareCase) -> bool {
        let is_cubic = self.congestion == DEFAULT_CONGESTION;
        let is_bulk = matches!(case.family, Family::OneWay | Family::BothWays);
        match self.kind {
            PeerKind::UdpGso => is_bulk,
            PeerKind::Tls => case.family == Family::Keyed,
            PeerKind::Quic => is_bulk || case.family == Family::Keyed,
            PeerKind::Tcp => is_bulk || (case.family == Family::MessageRate && is_cubic),
            PeerKind::UdpPingPong | PeerKind::TcpPingPong => {
                matches!(case.family, Family::LatencySpinning | Family::LatencyBlocking)
            }
            PeerKind::QuicPingPong => {
                matches!(case.family, Family::LatencyBlocking | Family::KeyedLatency)
            }
        }
    }

    fn missing(&self) -> Option<String> {
        let remedy = "not built in: cargo build --release -p braid-bench --features quic";
        (self.is_tls() && !cfg!(feature = "quic")).then(|| remedy.to_owned())
    }

    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure> {
        let mut servers = Vec::new();
        let mut clients = Vec::new();
        for (from, to) in case.directions() {
            let transport = self.transport(place, case, *to);
            let mut options = ServeOptions::new(self.kind, place.address(*to).into());
            options.transport = transport.clone();
            let mut server =
                place.start(&format!("{} server", self.name), *to, &arguments(&options))?;
            let mut options =
                ClientOptions::new(self.kind, program::address(&mut server)?, seconds);
            options.warm_up = WARM_UP;
            options.bytes = case.size as usize;
            options.checked = self.checked;
            options.transport = transport;
            let what = format!("{} client", self.name);
            clients.push(place.start(&what, *from, &options.arguments())?);
            servers.push(server);
        }
        let mut sum = Metrics::new();
        for mut client in clients {
            let report = program::report(&mut client, limit(seconds))?;
            client.wait(limit(seconds))?;
            for (name, figure) in ALL.iter().filter_map(|name| Some((name, report.get(*name)?))) {
                *sum.entry(name).or_default() += figure;
            }
        }
        if let Some(goodput) = sum.get(GOODPUT) {
            sum.insert(MESSAGE_RATE, goodput * 1e3 / case.size as f64);
        }
        let outcome = PeerOutcome::now(sum, seconds);
        servers.iter_mut().try_for_each(|server| server.wait(limit(seconds)))?;
        Ok(outcome)
    }
}
