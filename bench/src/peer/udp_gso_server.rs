//! The receiving side of the raw UDP transfer: a bounce buffer, a copy of each payload to its
//! place, and an acknowledgement per 256 KiB.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::error::{Context, PeerError};
use super::limits::{IDLE_LIMIT, WORKING_SET_BYTES};
use super::metrics::ServerReport;
use super::process::announce;
use super::sys;
use super::udp_frame::{BUFFER_BYTES, Cut, HEADER_BYTES, Header, Kind, check};
use super::udp_gso::ACK_BYTES;

/// Bytes of the longest UDP batch.
const BOUNCE_BYTES: usize = 64 << 10;

/// Serves one sender.
///
/// # Errors
/// A socket call fails, or the sender is silent for ten seconds.
pub(crate) fn serve(bind: IpAddr, payload: usize, out: &mut impl Write) -> Result<(), PeerError> {
    let mut receiver = Receiver::bind(bind, Cut::new(payload)?)?;
    announce(out, receiver.address()?)?;
    receiver.run()?;
    receiver.report().write_to(out)
}

/// The receiver. Invariants: `acked <= received <= expected`, and the last difference is lost.
pub(super) struct Receiver {
    socket: UdpSocket,
    cut: Cut,
    /// The destination of the payload: as large as the sender's working set, with its pages
    /// touched.
    pub(super) memory: Vec<u8>,
    /// Payload bytes that arrived.
    received: u64,
    /// The position in the stream after the last payload that arrived.
    expected: u64,
    /// The value of `received` at the last acknowledgement.
    acked: u64,
    /// The value of `received`, and the CPU time, at the start of the clock.
    mark: (u64, Duration),
}

impl Receiver {
    pub(super) fn bind(bind: IpAddr, cut: Cut) -> Result<Self, PeerError> {
        let socket = UdpSocket::bind((bind, 0)).context("bind the UDP receiver")?;
        sys::enlarge_receive_buffer(&socket).context("enlarge the receive buffer")?;
        sys::enable_udp_gro(&socket).context("enable UDP_GRO")?;
        socket.set_read_timeout(Some(IDLE_LIMIT)).context("set a timeout")?;
        let memory = vec![0xA5; WORKING_SET_BYTES];
        let mark = (0, sys::process_cpu());
        Ok(Self { socket, cut, memory, received: 0, expected: 0, acked: 0, mark })
    }

    pub(super) fn address(&self) -> Result<SocketAddr, PeerError> {
        self.socket.local_addr().context("ask for the address")
    }

    /// Serves the first sender until its end of the test.
    pub(super) fn run(&mut self) -> Result<(), PeerError> {
        self.connect()?;
        self.receive()
    }

    fn connect(&mut self) -> Result<(), PeerError> {
        let mut hello = [0; HEADER_BYTES];
        let (_, sender) = self.socket.recv_from(&mut hello).context("wait for a sender")?;
        self.socket.connect(sender).context("connect to the sender")?;
        self.answer(Kind::Hello)
    }

    fn receive(&mut self) -> Result<(), PeerError> {
        let mut bounce = vec![0; BOUNCE_BYTES];
        loop {
            let (length, segment) = match sys::receive_batch(&self.socket, &mut bounce) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.context("receive a batch")?,
            };
            for datagram in bounce[..length].chunks(segment.max(1)) {
                let Some((header, payload)) = Header::decode(datagram) else { continue };
                match header.kind {
                    Kind::Data => self.place(header, payload),
                    Kind::End => return Ok(()),
                    _ => self.synchronise(header)?,
                }
            }
            if self.received - self.acked >= ACK_BYTES {
                self.answer(Kind::Data)?;
            }
        }
    }

    /// Copies a payload to its place. A payload older than the newest one was counted as lost and
    /// stays so. Without reordering on the wire this does not happen.
    fn place(&mut self, header: Header, payload: &[u8]) {
        if header.position < self.expected || payload.len() != self.cut.payload {
            return;
        }
        if header.note != 0 && header.note != check(payload) {
            return;
        }
        let (buffer, offset) = self.cut.place(header.position);
        let start = buffer * BUFFER_BYTES + offset;
        self.memory[start..start + payload.len()].copy_from_slice(payload);
        self.received += payload.len() as u64;
        self.expected = header.position + payload.len() as u64;
    }

    /// Adopts the sender's position: payload that has not arrived by now is lost.
    fn synchronise(&mut self, header: Header) -> Result<(), PeerError> {
        self.expected = self.expected.max(header.position);
        if header.kind == Kind::Mark {
            self.mark = (self.received, sys::process_cpu());
        }
        self.answer(header.kind)
    }

    /// Acknowledges the payload that has arrived.
    fn answer(&mut self, kind: Kind) -> Result<(), PeerError> {
        self.acked = self.received;
        let mut bytes = [0; HEADER_BYTES];
        Header { kind, position: self.expected, note: self.received }.encode(&mut bytes);
        self.socket.send(&bytes).context("acknowledge")?;
        Ok(())
    }

    fn report(&self) -> ServerReport {
        let (received, cpu) = self.mark;
        ServerReport {
            payload_bytes: self.received - received,
            cpu_seconds: (sys::process_cpu() - cpu).as_secs_f64(),
        }
    }
}
