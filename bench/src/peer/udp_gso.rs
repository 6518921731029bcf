//! Raw UDP with segmentation offload, one connection: the upper bound of Braid's own datapath,
//! because it makes the same system calls and nothing else.
//!
//! The sender gathers each batch from a working set in memory, as a transport must: header,
//! payload, header, payload. The receiver copies each payload to its place and acknowledges every
//! 256 KiB. The sender keeps at most 2 MiB in flight, so that no socket buffer overflows. Lost
//! payloads are counted and not sent again.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::error::{Context, PeerError};
use super::limits::{ANSWER_LIMIT, WORKING_SET_BYTES};
use super::metrics::{Bulk, Metrics, ServerReport};
use super::options::{ClientOptions, PeerKind, ServeOptions, Timing};
use super::process::Peer;
use super::sys;
use super::udp_frame::{BUFFER_BYTES, Cut, HEADER_BYTES, Header, Kind, check};
use crate::interrupt;

/// Payload bytes per acknowledgement.
pub(crate) const ACK_BYTES: u64 = 256 << 10;

/// Maximum payload bytes in flight.
const WINDOW_BYTES: u64 = 2 << 20;

/// Time without an answer after which the request is sent again.
const PATIENCE: Duration = Duration::from_millis(20);

/// Options of a raw UDP run.
#[derive(Debug, Clone)]
pub(crate) struct UdpGsoOptions {
    /// Address of both ends.
    pub(crate) bind: IpAddr,
    /// Payload bytes of a segment; 4096 on loopback, 1408 with an MTU of 1500.
    pub(crate) payload: usize,
    /// Whether each payload has a CRC-32, made by the sender and checked by the receiver, as in
    /// Braid.
    pub(crate) checked: bool,
    /// Durations of warm-up and measurement.
    pub(crate) timing: Timing,
}

/// Starts the receiver in another process, sends to it, and measures.
///
/// # Errors
/// A process or a socket fails, or the receiver does not answer.
pub(crate) fn run(options: &UdpGsoOptions) -> Result<Metrics, PeerError> {
    let cut = Cut::new(options.payload)?;
    let mut serve = ServeOptions::new(PeerKind::UdpGso, options.bind);
    serve.transport.payload = options.payload;
    let mut peer = Peer::spawn(&serve)?;
    let mut sender = UdpSender::connect(options.bind, peer.address(), cut)?;
    sender.checked = options.checked;
    let bulk = sender.measure(options.timing)?;
    let report = sender.finish(&mut peer)?;
    Ok(bulk.metrics(report))
}

/// Sends to a receiver that the caller has started.
///
/// # Errors
/// A socket call fails, or the receiver does not answer.
pub(crate) fn send(options: &ClientOptions, timing: Timing) -> Result<Metrics, PeerError> {
    let cut = Cut::new(options.transport.payload)?;
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    let mut sender = UdpSender::connect(any, options.to, cut)?;
    sender.checked = options.checked;
    let bulk = sender.measure(timing)?;
    // If this is lost, the receiver ends a little later after a time-out.
    sender.send_word(Kind::End)?;
    Ok(bulk.sender_metrics())
}

/// The sender. Invariants: `acked <= sent`, and the difference is in flight and at most
/// [`WINDOW_BYTES`].
struct UdpSender {
    socket: UdpSocket,
    cut: Cut,
    checked: bool,
    /// The working set.
    buffers: Vec<Vec<u8>>,
    /// One header per segment of a batch.
    headers: Vec<[u8; HEADER_BYTES]>,
    /// Payload bytes sent.
    sent: u64,
    /// Payload bytes that are acknowledged or known to be lost.
    acked: u64,
    /// Payload bytes that have arrived.
    received: u64,
}

impl UdpSender {
    fn connect(bind: IpAddr, receiver: SocketAddr, cut: Cut) -> Result<Self, PeerError> {
        let socket = UdpSocket::bind((bind, 0)).context("bind the UDP sender")?;
        socket.connect(receiver).context("connect to the UDP receiver")?;
        let segment = u16::try_from(cut.segment_bytes()).expect("a segment fits into a datagram");
        sys::set_udp_segment(&socket, segment).context("set UDP_SEGMENT")?;
        sys::enlarge_receive_buffer(&socket).context("enlarge the receive buffer")?;
        socket.set_read_timeout(Some(PATIENCE)).context("set a timeout")?;
        let buffers = vec![vec![0x5A; BUFFER_BYTES]; WORKING_SET_BYTES / BUFFER_BYTES];
        let headers = vec![[0; HEADER_BYTES]; cut.segments];
        let (checked, sent, acked, received) = (false, 0, 0, 0);
        let mut sender = Self { socket, cut, checked, buffers, headers, sent, acked, received };
        sender.ask(Kind::Hello)?;
        Ok(sender)
    }

    /// Warms up, sends for the given time, then waits until everything has arrived.
    fn measure(&mut self, timing: Timing) -> Result<Bulk, PeerError> {
        self.blast(timing.warm_up)?;
        self.ask(Kind::Mark)?;
        let (sent, received) = (self.sent, self.received);
        let (start, cpu) = (Instant::now(), sys::thread_cpu());
        self.blast(timing.duration)?;
        self.ask(Kind::Probe)?;
        let payload_bytes = self.received - received;
        Ok(Bulk {
            payload_bytes,
            elapsed: start.elapsed(),
            sender_cpu: sys::thread_cpu() - cpu,
            lost_bytes: (self.sent - sent).saturating_sub(payload_bytes),
        })
    }

    /// Sends batches for the given time.
    fn blast(&mut self, duration: Duration) -> Result<(), PeerError> {
        let start = Instant::now();
        while start.elapsed() < duration && !interrupt::is_requested() {
            self.make_room()?;
            self.send_batch()?;
        }
        Ok(())
    }

    /// Handles the acknowledgements that have arrived, and waits for one if the window is full.
    fn make_room(&mut self) -> Result<(), PeerError> {
        let after = self.sent + self.cut.batch_bytes();
        if after - self.acked > WINDOW_BYTES / 2 {
            while self.poll()?.is_some() {}
        }
        while after - self.acked > WINDOW_BYTES {
            if self.wait()?.is_none() {
                self.ask(Kind::Probe)?;
            }
        }
        Ok(())
    }

    /// Sends one batch, gathered from headers and working set.
    fn send_batch(&mut self) -> Result<(), PeerError> {
        let payload = self.cut.payload;
        let mut parts = Vec::with_capacity(2 * self.headers.len());
        let mut position = self.sent;
        for header in &mut self.headers {
            let (buffer, offset) = self.cut.place(position);
            let bytes = &self.buffers[buffer][offset..offset + payload];
            let note = if self.checked { check(bytes) } else { 0 };
            Header { kind: Kind::Data, position, note }.encode(header);
            parts.push(IoSlice::new(header));
            parts.push(IoSlice::new(bytes));
            position += payload as u64;
        }
        SockRef::from(&self.socket).send_vectored(&parts).context("send a batch")?;
        self.sent = position;
        Ok(())
    }

    /// Sends the position until the receiver answers. Payload that is then missing is lost.
    fn ask(&mut self, kind: Kind) -> Result<(), PeerError> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < deadline {
            self.send_word(kind)?;
            while let Some(answer) = self.wait()? {
                if answer.kind == kind && answer.position == self.sent {
                    return Ok(());
                }
            }
        }
        Err(PeerError::Timeout { what: "answer from the UDP receiver", after: ANSWER_LIMIT })
    }

    fn send_word(&self, kind: Kind) -> Result<(), PeerError> {
        let mut bytes = [0; HEADER_BYTES];
        Header { kind, position: self.sent, note: 0 }.encode(&mut bytes);
        self.socket.send(&bytes).context("send to the UDP receiver")?;
        Ok(())
    }

    /// Returns the next answer, if it arrives within [`PATIENCE`].
    fn wait(&mut self) -> Result<Option<Header>, PeerError> {
        let mut bytes = [0; HEADER_BYTES];
        let outcome = self.socket.recv(&mut bytes);
        self.accept(outcome, &bytes)
    }

    /// Returns the next answer that has arrived already.
    fn poll(&mut self) -> Result<Option<Header>, PeerError> {
        let mut bytes = [0; HEADER_BYTES];
        let outcome = sys::receive_now(&self.socket, &mut bytes);
        self.accept(outcome, &bytes)
    }

    /// Handles an answer.
    fn accept(
        &mut self,
        outcome: io::Result<usize>,
        bytes: &[u8; HEADER_BYTES],
    ) -> Result<Option<Header>, PeerError> {
        match outcome {
            Err(error) if sys::is_silence(&error) => return Ok(None),
            other => other.context("receive an acknowledgement")?,
        };
        let answer = Header::decode(bytes).map(|(header, _)| header);
        if let Some(answer) = answer {
            self.acked = self.acked.max(answer.position.min(self.sent));
            self.received = self.received.max(answer.note);
        }
        Ok(answer)
    }

    /// Says goodbye until the receiver has reported.
    fn finish(&self, peer: &mut Peer) -> Result<ServerReport, PeerError> {
        const TRIES: u32 = 10;
        for _ in 0..TRIES {
            self.send_word(Kind::End)?;
            match peer.report(ANSWER_LIMIT / TRIES) {
                Err(PeerError::Timeout { .. }) => {}
                other => return other,
            }
        }
        Err(PeerError::Timeout { what: "report from the UDP receiver", after: ANSWER_LIMIT })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::udp_gso_server::Receiver;
    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn every_payload_finds_its_place() {
        for payload in [4096, 1408] {
            let cut = Cut::new(payload).unwrap();
            let mut receiver = Receiver::bind(LOCALHOST, cut).unwrap();
            let address = receiver.address().unwrap();
            let receiving = thread::spawn(move || receiver.run().map(|()| receiver));

            let mut sender = UdpSender::connect(LOCALHOST, address, cut).unwrap();
            for (number, buffer) in (1..).zip(&mut sender.buffers) {
                for (at, byte) in buffer.iter_mut().enumerate() {
                    *byte = (at / payload * 7 + at + number) as u8;
                }
            }
            sender.blast(Duration::from_millis(25)).unwrap();
            sender.checked = true;
            sender.blast(Duration::from_millis(25)).unwrap();
            sender.ask(Kind::Probe).unwrap();
            sender.send_word(Kind::End).unwrap();

            let receiver = receiving.join().unwrap().unwrap();
            assert!(sender.sent > 0);
            assert_eq!((sender.acked, sender.received), (sender.sent, sender.sent));
            for position in (0..sender.sent.min(7 << 20)).step_by(payload) {
                let (buffer, offset) = cut.place(position);
                let placed = buffer * BUFFER_BYTES + offset;
                assert!(
                    receiver.memory[placed..placed + payload]
                        == sender.buffers[buffer][offset..offset + payload],
                    "the payload at {position}"
                );
            }
        }
    }

    #[test]
    fn a_lost_batch_is_counted_and_not_waited_for() {
        let cut = Cut::new(4096).unwrap();
        let mut receiver = Receiver::bind(LOCALHOST, cut).unwrap();
        let address = receiver.address().unwrap();
        let receiving = thread::spawn(move || receiver.run());

        let mut sender = UdpSender::connect(LOCALHOST, address, cut).unwrap();
        sender.send_batch().unwrap();
        // Pretends that a window of batches was dropped.
        sender.sent += WINDOW_BYTES;
        sender.make_room().unwrap();
        assert_eq!((sender.acked, sender.received), (sender.sent, cut.batch_bytes()));
        sender.send_batch().unwrap();
        sender.ask(Kind::Probe).unwrap();
        assert_eq!(sender.received, 2 * cut.batch_bytes());
        sender.send_word(Kind::End).unwrap();
        receiving.join().unwrap().unwrap();
    }
}
