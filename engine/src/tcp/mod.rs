//! The datapath whose packets are frames of TCP connections, one connection for each path to a
//! peer. See `docs/tcp.md`.
//!
//! The kernel retransmits and controls congestion for each connection, so a path loses nothing
//! while its connection lives. When it ends, its packets leave by the other connections to the same
//! peer, and it is opened again.

mod closing;
mod connection;
mod connections;
mod direct;
mod greeting;
mod incoming;
mod listeners;
mod outgoing;
mod pack;
mod peers;
mod socket;
mod spares;
mod table;

pub(crate) use self::socket::dial;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, Carrier, LocalAddr, Regions};
use braid_wire::{Crc, Opcode, PathId, QpId, Time};
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};

use self::closing::Closed;
use self::connection::{ConnId, Stage, TcpConnection};
use self::connections::TcpConnections;
use self::direct::{Direct, DirectRead};
use self::greeting::{GREETING_LEN, Greeting};
use self::incoming::{MAX_FRAME, MAX_STRANGERS_FRAME, Scratch, frames};
use self::listeners::{LISTENER, Listeners};
use crate::counters::WorkerCounters;
use crate::datapath::{
    Arrived, Caps, Datapath, DatapathSetup, Envelope, JoinError, Losses, Owner, Partner, PathInfo,
    PortRefused, Reach, Received, Room, SegmentRun, Sent, Taken, Via,
};
use crate::degradation::Degradation;
use crate::link::udp::{canonical, route_mtu};
use crate::paths_to::PathRoute;
use crate::random;

/// Payload bytes of a full segment. The header has 16 bits for them, and they are whole words.
const SEGMENT: u16 = u16::MAX - 7;
/// Bytes of a batch: the quantum of a path, and what leaves in one system call. A system call of
/// the kernel's TCP costs little per byte if it has many, and a batch fits half of a core's cache.
const BATCH: usize = 384 << 10;
/// The largest number of segments in a batch.
const BATCH_SEGMENTS: u32 = 64;
/// The largest number of segments that take one path in a row if they are sealed: four batches of
/// five full segments.
///
/// The kernel frees the pages of a batch when it is acknowledged, while the next batch is sealed
/// and sent. If both use the same connection, the sending processor frees the pages, and its cache
/// has them for the next batch. Otherwise the receiving processor frees them. With one batch
/// instead of four, one link would carry a tenth to a fourth less.
const KEYED_QUANTUM: u32 = 20;
/// Shortest retransmission time-out. Megabytes wait in the sockets of a connection, so a segment
/// is soon late, but not lost: the kernel repairs losses. Time-outs find connections that stall.
const MIN_RTO: Duration = Duration::from_millis(20);
/// Sockets with arrivals that are read in one call.
const EVENTS: usize = 64;
/// Bytes after which a connection with long segments gives way to the next one.
const BULK: usize = 256 << 10;
/// Fewer received bytes were probably the last: another receive call would find nothing.
const SMALL: usize = 64 << 10;

/// The datapath over TCP connections.
pub(crate) struct TcpDatapath {
    connections: TcpConnections,
    scratch: Scratch,
    events: Box<[EpollEvent; EVENTS]>,
    counters: Arc<WorkerCounters>,
    /// Whether a connection has a whole batch to send.
    has_batch: bool,
    /// Packets that found no connection.
    lost: u64,
}

impl TcpDatapath {
    /// Listens at `addr`, and at the same port of `second`, which has the other IP version. Each
    /// peer is reached by `paths` connections, and by one that takes no path.
    pub(crate) fn bind(
        addr: SocketAddr,
        second: Option<IpAddr>,
        paths: usize,
        counters: Arc<WorkerCounters>,
    ) -> io::Result<Self> {
        let listeners = Listeners::bind(addr, second)?;
        let connections =
            TcpConnections::new(listeners, paths, random::number(), counters.clone())?;
        Ok(TcpDatapath {
            connections,
            scratch: Scratch::new(),
            events: Box::new([EpollEvent::empty(); EVENTS]),
            counters,
            has_batch: false,
            lost: 0,
        })
    }

    /// Queues a packet, which its sender repeats if it gets lost.
    fn send(&mut self, to: AddrPair, via: Via, packet: &[u8]) {
        let connection = self.connections.choose(to, via);
        let Some(connection) = connection.filter(|connection| connection.takes_packets()) else {
            self.lost += 1;
            return;
        };
        connection.out.frame(packet);
        let id = connection.id;
        self.counters.datagrams_sent.add(1);
        self.connections.mark(id);
    }

    /// Reads a connection: once, or several long segments. Returns the numbers of packets and
    /// bytes.
    fn read(&mut self, id: ConnId, sink: &mut dyn FnMut(Arrived<'_>)) -> (usize, usize) {
        let Some(mut connection) = self.connections.take(id) else { return (0, 0) };
        let before = connection.input.received();
        let (mut packets, mut bytes) = (0, 0);
        loop {
            let read = self.read_from(&mut connection, &mut packets, sink);
            let earlier = bytes;
            bytes = (connection.input.received() - before) as usize;
            if let Err(why) = read {
                self.connections.end(connection, why);
                break;
            }
            let is_next_begun = connection.input.direct.is_some() && bytes > earlier;
            if !is_next_begun || bytes >= BULK {
                self.connections.put_back(connection);
                break;
            }
        }
        (packets, bytes)
    }

    fn read_from(
        &mut self,
        connection: &mut TcpConnection,
        packets: &mut usize,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> Result<(), Closed> {
        let bytes = match connection.input.direct.take() {
            Some(direct) => {
                let pair = self.connections.pair_of(connection).ok_or(Closed::Unused)?;
                let scratch = &mut self.scratch;
                read_direct(connection, pair.remote, direct, scratch, sink, &self.counters)?
            }
            None => connection.input.fill(&connection.socket, &mut self.scratch)?,
        };
        let Some(mut bytes) = bytes else { return Ok(()) };
        if connection.stage == Stage::Greeting {
            match Greeting::decode(bytes)? {
                None => {
                    connection.input.keep(bytes);
                    return Ok(());
                }
                Some(greeting) => {
                    self.connections.on_greeting(connection, greeting)?;
                    bytes = &mut bytes[GREETING_LEN..];
                }
            }
        }
        let Some(AddrPair { remote: from, local }) = self.connections.pair_of(connection) else {
            return Err(Closed::Unused);
        };
        let called = LocalAddr { ip: local.ip, ..LocalAddr::default() };
        let most = match connection.is_known() {
            true => MAX_FRAME,
            false => MAX_STRANGERS_FRAME,
        };
        let via = connection.via;
        let rest = frames(bytes, most, |bytes| {
            *packets += 1;
            let congestion = false;
            sink(if bytes.first() == Some(&(Opcode::Sealed as u8)) {
                Arrived::Sealed(Envelope { from, called, via, congestion, bytes })
            } else {
                let (from, closes, segment_len) = (Some(from), None, bytes.len());
                Arrived::Packets(Received {
                    from,
                    called,
                    via,
                    congestion,
                    closes,
                    segment_len,
                    bytes,
                })
            });
        })?;
        if let Some(header) = Direct::header_of(rest) {
            let mut place = None;
            sink(Arrived::Ahead(from, path_of(via), &header, &mut place));
            if let Some((pieces, _)) = place {
                connection.input.direct = Some(Direct::begin(header, rest, &pieces));
            }
        }
        connection.input.is_bulk |= connection.input.direct.is_some();
        connection.input.keep(if connection.input.direct.is_some() { &[] } else { rest });
        if connection.input.is_partial() {
            connection.is_amid_frame();
            self.connections.tick_within(Duration::from_secs(1));
        }
        Ok(())
    }
}

/// Reads the payload of a segment into its place. Returns the bytes of the next frames; `None`: the
/// payload has not arrived as a whole.
fn read_direct<'a>(
    connection: &mut TcpConnection,
    from: SocketAddr,
    mut direct: Direct,
    scratch: &'a mut Scratch,
    sink: &mut dyn FnMut(Arrived<'_>),
    counters: &WorkerCounters,
) -> Result<Option<&'a mut [u8]>, Closed> {
    let (path, mut place) = (path_of(connection.via), None);
    sink(Arrived::Ahead(from, path, &direct.header, &mut place));
    let received = &mut connection.input.received;
    match direct.read(&connection.socket, place.as_ref(), scratch.bytes(), received)? {
        DirectRead::Partial => {
            connection.input.direct = Some(direct);
            connection.is_amid_frame();
            Ok(None)
        }
        DirectRead::Whole { is_placed, is_damaged, rest } => {
            if is_placed {
                sink(Arrived::Placed(path, &direct.header));
            }
            counters.payload_check.add(is_damaged.into());
            Ok(Some(rest))
        }
    }
}

/// The path by which a packet has come. Packets without one take the first.
fn path_of(via: Via) -> PathId {
    match via {
        Via::Path(path) => path,
        Via::Port => PathId::default(),
    }
}

impl Datapath for TcpDatapath {
    fn make_room(&mut self) -> Room {
        if !std::mem::take(&mut self.has_batch) {
            return Room::Open;
        }
        self.connections.flush();
        Room::Emptied
    }

    fn send_segments(&mut self, _: Time, segments: &mut SegmentRun<'_>) -> Sent {
        let Some(connection) = self.connections.choose(segments.to, segments.via) else {
            self.lost += 1;
            return Sent::default();
        };
        let count = pack::pack(&mut connection.out, segments);
        let is_full = connection.pauses(segments.id);
        self.has_batch |= connection.out.bytes() >= BATCH;
        let id = connection.id;
        self.connections.mark(id);
        self.counters.datagrams_sent.add(count);
        Sent { is_full, ..Sent::default() }
    }

    fn send_packet(&mut self, _: QpId, to: AddrPair, via: Via, packet: &[u8]) {
        self.send(to, via, packet);
    }

    fn send_datagram(&mut self, to: AddrPair, via: Via, packet: &[u8]) {
        self.send(to, via, packet);
    }

    fn send_alone(&mut self, to: AddrPair, via: Via, packets: &mut Vec<u8>, segment_len: usize) {
        packets.chunks(segment_len.max(1)).for_each(|packet| self.send(to, via, packet));
        packets.clear();
    }

    fn flush(&mut self) -> bool {
        self.has_batch = false;
        self.connections.flush();
        // A full socket pauses the queue pairs that send by it, and nobody else.
        true
    }

    fn receive(
        &mut self,
        _: Time,
        _: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken> {
        self.connections.tick_if_due();
        self.connections.resumed.drain(..).for_each(|id| sink(Arrived::Room(id)));
        let count = self.connections.epoll.wait(&mut self.events[..], EpollTimeout::ZERO)?;
        let (mut packets, mut bytes) = (0, 0);
        for index in 0..count {
            let (flags, data) = (self.events[index].events(), self.events[index].data());
            if data == LISTENER {
                self.connections.accept();
                continue;
            }
            let id = ConnId::from_bits(data);
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if connection.stage == Stage::Connecting {
                self.connections.on_answer(id);
                continue;
            }
            if flags.contains(EpollFlags::EPOLLOUT) {
                self.connections.flush_one(id, true);
            }
            if flags != EpollFlags::EPOLLOUT {
                let (more, length) = self.read(id, sink);
                (packets, bytes) = (packets + more, bytes + length);
            }
        }
        self.counters.datagrams_received.add(packets as u64);
        Ok(Taken { packets, is_more: bytes >= SMALL })
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.connections.epoll.0.as_fd()])
    }

    fn arm(&mut self) -> bool {
        !self.connections.resumed.is_empty()
    }

    fn next_due(&self) -> Option<Instant> {
        self.connections.next_tick()
    }
}

impl DatapathSetup for TcpDatapath {
    fn caps(&self) -> Caps {
        Caps {
            batch_segments: BATCH_SEGMENTS,
            batch_bytes: BATCH as u64,
            transmit_segments: BATCH_SEGMENTS,
            keyed_quantum: Some(KEYED_QUANTUM),
            joint_batches: true,
            segment: SEGMENT,
            receive_buffer: u32::MAX,
            checks_payloads: true,
            crc: Crc::Off,
            search_path_mtu: false,
            min_rto: MIN_RTO,
            congestion_marks: false,
            direct: None,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.connections.listeners.first()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.connections.listeners.pair(to)
    }

    fn open(&mut self, _: Owner) -> Result<Vec<u8>, JoinError> {
        Ok(Vec::new())
    }

    fn join(&mut self, _: QpId, _: Partner, routing: &[u8]) -> Result<u32, JoinError> {
        if routing.is_empty() { Ok(u32::MAX) } else { Err(JoinError::PeerOverVerbs) }
    }

    fn retire(&mut self, _: QpId) {}

    fn close(&mut self, _: QpId) {}

    fn forget_memory(&mut self) {
        self.connections.iter_mut().for_each(|connection| connection.out.own());
    }
}

impl PathInfo for TcpDatapath {
    /// Every frame fits: the kernel cuts it into packets of the path.
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        let to = AddrPair { remote: canonical(to.remote), ..to };
        // Asks for a route only.
        route_mtu(self.connections.listeners.local_towards(to.remote), to).map(|_| MAX_FRAME)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.connections.errno(to).map(Reach::known)
    }

    fn watch(&mut self, to: AddrPair) {
        self.connections.watch(to);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.connections.unwatch(to);
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(Carrier, PortRefused)) {
        let refused = self.connections.refused.drain(..);
        refused.for_each(|refused| sink(Carrier::default(), refused));
    }

    fn losses(&self) -> Losses {
        Losses { unreachable: self.lost, ..Losses::default() }
    }

    fn degradations(&self, rail: usize, pair: AddrPair, all: &mut Vec<Degradation>) {
        let to = pair.remote;
        let misrouted = self.connections.listeners.misrouting(to);
        all.extend(misrouted.map(|cause| Degradation::RailMisrouted { rail, to, cause }));
        all.extend(self.connections.unconnected(rail, pair));
    }

    fn routes(&self, all: &mut Vec<PathRoute>) {
        self.connections.routes(all);
    }
}

impl Drop for TcpDatapath {
    fn drop(&mut self) {
        self.connections.end_all();
    }
}
