//! Raw UDP ping-pong: the lower bound of a message's time through the kernel, spinning or sleeping
//! until a datagram arrives.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::error::{Context, PeerError};
use super::limits::{ANSWER_LIMIT, IDLE_LIMIT};
use super::metrics::{LOST, Metrics, RoundTrips, ServerReport};
use super::options::{ClientOptions, PeerKind, ServeOptions, Timing};
use super::process::{Peer, announce};
use super::sys;
use super::udp_frame::{HEADER_BYTES, Header, Kind};
use crate::interrupt;

/// Bytes of a ping: a header and one word.
pub(crate) const DEFAULT_BYTES: usize = HEADER_BYTES + 8;

/// Bytes of the longest ping.
const MAX_BYTES: usize = 65_507;

/// Time without an echo after which the ping is sent again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Options of the ping-pong.
#[derive(Debug, Clone)]
pub(crate) struct PingPongOptions {
    /// Address of both ends.
    pub(crate) bind: IpAddr,
    /// Bytes of a datagram with its header; at least [`HEADER_BYTES`].
    pub(crate) bytes: usize,
    /// Durations of warm-up and measurement.
    pub(crate) timing: Timing,
}

/// Starts the echo in another process, plays, and measures.
///
/// # Errors
/// A process or a socket fails, or the echo does not answer.
pub(crate) fn run(options: &PingPongOptions) -> Result<Metrics, PeerError> {
    let mut peer = Peer::spawn(&ServeOptions::new(PeerKind::UdpPingPong, options.bind))?;
    let mut pinger = Pinger::connect(options.bind, peer.address(), options.bytes, false)?;
    pinger.measure(options.timing)?;
    pinger.finish(&mut peer)?;
    Ok(pinger.metrics())
}

/// Plays with an echo that the caller has started. `bytes` counts the ping after the header.
///
/// # Errors
/// A socket call fails, or the echo does not answer.
pub(crate) fn play(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    let (any, bytes) = (Ipv4Addr::UNSPECIFIED.into(), HEADER_BYTES + options.bytes);
    let mut pinger = Pinger::connect(any, options.to, bytes, options.transport.blocking)?;
    pinger.measure(timing)?;
    // If this is lost, the echo ends a little later after a time-out.
    pinger.send(Kind::End)?;
    Ok(pinger.metrics())
}

struct Pinger {
    socket: UdpSocket,
    blocking: bool,
    ping: Vec<u8>,
    /// Number of the next ping.
    next: u64,
    /// Number of pings without an echo.
    lost: u64,
    round_trips: RoundTrips,
}

impl Pinger {
    fn connect(
        bind: IpAddr,
        echo: SocketAddr,
        bytes: usize,
        blocking: bool,
    ) -> Result<Self, PeerError> {
        if !(HEADER_BYTES..=MAX_BYTES).contains(&bytes) {
            return Err(PeerError::Usage(format!("a ping of {bytes} bytes is not possible")));
        }
        let socket = UdpSocket::bind((bind, 0)).context("bind the pinger")?;
        socket.connect(echo).context("connect to the echo")?;
        socket.set_read_timeout(Some(PATIENCE)).context("set a timeout")?;
        let round_trips = RoundTrips::new(PATIENCE);
        Ok(Self { socket, blocking, ping: vec![0x5A; bytes], next: 0, lost: 0, round_trips })
    }

    /// Warms up, then plays and measures.
    fn measure(&mut self, timing: Timing) -> Result<(), PeerError> {
        self.play(timing.warm_up)?;
        self.round_trips = RoundTrips::new(PATIENCE);
        self.lost = 0;
        self.play(timing.duration)
    }

    fn play(&mut self, duration: Duration) -> Result<(), PeerError> {
        let begin = Instant::now();
        let mut last_echo = begin;
        while begin.elapsed() < duration && !interrupt::is_requested() {
            let start = Instant::now();
            if self.ping()? {
                self.round_trips.record(start.elapsed());
                last_echo = start;
            } else if last_echo.elapsed() > ANSWER_LIMIT {
                return Err(PeerError::Timeout { what: "echo", after: ANSWER_LIMIT });
            } else {
                self.lost += 1;
            }
        }
        Ok(())
    }

    /// Sends one ping. Returns whether its echo arrived in time.
    fn ping(&mut self) -> Result<bool, PeerError> {
        self.send(Kind::Data)?;
        let position = self.next;
        self.next += 1;
        let mut echo = [0; MAX_BYTES];
        let deadline = Instant::now() + PATIENCE;
        while let Some(length) = receive(&self.socket, self.blocking, &mut echo, deadline)? {
            let header = Header::decode(&echo[..length]).map(|(header, _)| header);
            if header.is_some_and(|header| header.position == position) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn send(&mut self, kind: Kind) -> Result<(), PeerError> {
        let header = self.ping.first_chunk_mut().expect("a ping is longer than a header");
        Header { kind, position: self.next, note: 0 }.encode(header);
        self.socket.send(&self.ping).context("send a ping")?;
        Ok(())
    }

    /// Says goodbye until the echo has gone.
    fn finish(&mut self, peer: &mut Peer) -> Result<(), PeerError> {
        const TRIES: u32 = 10;
        for _ in 0..TRIES {
            self.send(Kind::End)?;
            match peer.report(ANSWER_LIMIT / TRIES) {
                Err(PeerError::Timeout { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        Err(PeerError::Timeout { what: "end of the echo", after: ANSWER_LIMIT })
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.round_trips.metrics();
        metrics.insert(LOST, (self.lost * self.ping.len() as u64) as f64);
        metrics
    }
}

/// Serves one pinger.
///
/// # Errors
/// A socket call fails, or the pinger is silent for ten seconds.
pub(crate) fn serve(bind: IpAddr, blocking: bool, out: &mut impl Write) -> Result<(), PeerError> {
    let socket = UdpSocket::bind((bind, 0)).context("bind the echo")?;
    socket.set_read_timeout(Some(IDLE_LIMIT)).context("set a timeout")?;
    announce(out, socket.local_addr().context("ask for the address")?)?;

    let mut bytes = vec![0; MAX_BYTES];
    let (mut length, pinger) = socket.recv_from(&mut bytes).context("wait for a pinger")?;
    socket.connect(pinger).context("connect to the pinger")?;
    let cpu = sys::process_cpu();
    let mut payload_bytes = 0;
    while Header::decode(&bytes[..length]).is_none_or(|(header, _)| header.kind != Kind::End) {
        socket.send(&bytes[..length]).context("echo")?;
        payload_bytes += length as u64;
        length = receive(&socket, blocking, &mut bytes, Instant::now() + IDLE_LIMIT)?
            .ok_or(PeerError::Timeout { what: "ping", after: IDLE_LIMIT })?;
    }
    let cpu_seconds = (sys::process_cpu() - cpu).as_secs_f64();
    ServerReport { payload_bytes, cpu_seconds }.write_to(out)
}

/// Receives the next datagram. A sleeping receiver waits for the socket's read timeout at most.
fn receive(
    socket: &UdpSocket,
    blocking: bool,
    buffer: &mut [u8],
    deadline: Instant,
) -> Result<Option<usize>, PeerError> {
    if !blocking {
        return sys::spin(socket, buffer, deadline).context("receive a datagram");
    }
    match socket.recv(buffer) {
        Err(error) if sys::is_silence(&error) => Ok(None),
        other => other.map(Some).context("receive a datagram"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::super::metrics::ONE_WAY_P50;
    use super::*;

    #[test]
    fn every_ping_comes_back_spinning_and_sleeping() {
        for blocking in [false, true] {
            let (output, mut out) = std::io::pipe().unwrap();
            let bind = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let serving = thread::spawn(move || serve(bind, blocking, &mut out));
            let mut lines = BufReader::new(output).lines().map(Result::unwrap);
            let ready = lines.next().unwrap();
            let address = ready.strip_prefix("listening on ").unwrap().parse().unwrap();

            let mut pinger = Pinger::connect(bind, address, DEFAULT_BYTES, blocking).unwrap();
            pinger.play(Duration::from_millis(50)).unwrap();
            pinger.send(Kind::End).unwrap();
            assert_eq!(pinger.round_trips.count() + pinger.lost, pinger.next);
            assert!(pinger.metrics()[ONE_WAY_P50] > 0.1);
            assert!(lines.next().unwrap().starts_with("report "));
            serving.join().unwrap().unwrap();
        }
    }
}
