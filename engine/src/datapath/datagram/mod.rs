//! The datapath whose packets are datagrams of a [`Link`]: UDP sockets, or memory inside one
//! process, with or without injected faults.

mod batch;
mod pack;
mod queue;
mod routes;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, Carrier, Regions};
use braid_wire::{Crc, Opcode, PathId, QpId, SOURCE_PORT_BASE, Time};

use self::batch::Shape;
use self::queue::PacketQueue;
use self::routes::Routes;
use super::{
    Arrived, Caps, Datapath, DatapathSetup, Envelope, JoinError, Losses, Owner, Partner, PathInfo,
    PortRefused, Reach, Received, Room, SegmentRun, Sent, Taken, Via,
};
use crate::counters::WorkerCounters;
use crate::degradation::Degradation;
use crate::link::roce_batch::RoceBatch;
use crate::link::{Datagrams, Link, SendResult};
use crate::signals::Signals;

/// Payload bytes of a full segment, if the configuration and the path allow as much. With four
/// times InfiniBand's largest, a byte costs a quarter of the instructions, and 64 KiB are still
/// whole packets. A path with an MTU of 9000 or 1500 uses its MTU. See `docs/performance.md`.
const SEGMENT: u16 = 16_384;
/// A batch of fewer bytes was probably the last: another receive call would find nothing.
const SMALL_BATCH: usize = 8 << 10;
/// Time until a full link is tried again, because nothing may report that there is room. A fast
/// network sends the content of a socket's buffer in several times as long. The time doubles up to
/// the maximum while nothing leaves.
const RETRY: Duration = Duration::from_micros(50);
const LONGEST_RETRY: Duration = Duration::from_micros(800);

/// The datapath over datagrams of a link.
pub(crate) struct DatagramDatapath {
    link: Box<dyn Link>,
    queue: PacketQueue,
    counters: Arc<WorkerCounters>,
    /// Set if routes are discovered.
    routes: Option<Routes>,
    /// Segments that were sent in parts.
    parted: u32,
    /// Set while the link is full.
    retry: Option<Retry>,
}

/// The next attempt to send by a full link.
#[derive(Clone, Copy)]
struct Retry {
    /// The result of the last attempt.
    full: SendResult,
    at: Instant,
    /// Time since the last attempt.
    after: Duration,
}

impl DatagramDatapath {
    pub(crate) fn new(link: Box<dyn Link>, counters: Arc<WorkerCounters>) -> Self {
        let queue = PacketQueue::new(link.caps(), counters.clone());
        DatagramDatapath { link, queue, counters, routes: None, parted: 0, retry: None }
    }

    /// Sends the waiting batches. Unless the result is [`SendResult::Gone`], the link has no room
    /// for all of them.
    fn send_waiting(&mut self) -> SendResult {
        if let Some(retry) = self.retry
            && Instant::now() < retry.at
        {
            return retry.full;
        }
        let waiting = self.queue.waiting();
        let sent = self.queue.flush(&mut *self.link);
        self.retry = (sent != SendResult::Gone).then(|| {
            let vain = self.retry.filter(|_| self.queue.waiting() == waiting);
            let after = vain.map_or(RETRY, |retry| (2 * retry.after).min(LONGEST_RETRY));
            Retry { full: sent, at: Instant::now() + after, after }
        });
        sent
    }

    /// Discovers the routes that `count` paths take to the peers.
    pub(crate) fn with_discovery(mut self, count: usize, signals: Arc<Signals>) -> Self {
        self.routes = Some(Routes::new(self.link.local_addr().ip(), count, signals));
        self
    }
}

impl Datapath for DatagramDatapath {
    fn make_room(&mut self) -> Room {
        if !self.queue.has_waiting() {
            return Room::Open;
        }
        match self.send_waiting() {
            SendResult::Gone => Room::Emptied,
            SendResult::Full => Room::Full,
            SendResult::DeviceFull => Room::DeviceFull,
        }
    }

    fn send_segments(&mut self, _: Time, segments: &mut SegmentRun<'_>) -> Sent {
        if segments.oversize {
            pack::pack_in_parts(&mut self.queue, segments, &mut self.parted);
        } else {
            pack::pack(&mut self.queue, segments);
        }
        Sent::default()
    }

    fn send_packet(&mut self, _: QpId, to: AddrPair, via: Via, packet: &[u8]) {
        self.queue.packet(to, via, packet);
    }

    fn send_datagram(&mut self, to: AddrPair, via: Via, packet: &[u8]) {
        self.queue.datagram(to, via, packet);
    }

    fn send_alone(&mut self, to: AddrPair, via: Via, packets: &mut Vec<u8>, segment_len: usize) {
        self.queue.alone(Shape { to, via, len: segment_len }, packets, false);
    }

    fn send_roce(&mut self, to: AddrPair, packets: &mut Vec<u8>, segment_len: usize, ecn: bool) {
        self.queue.alone(Shape { to, via: Via::Port, len: segment_len }, packets, ecn);
    }

    fn flush(&mut self) -> bool {
        self.queue.seal();
        self.send_waiting() == SendResult::Gone
    }

    fn receive(
        &mut self,
        _: Time,
        _: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken> {
        if let Some((to, map)) = self.routes.as_ref().and_then(Routes::poll) {
            sink(Arrived::Routes(to, &map));
        }
        let mut bytes = 0;
        let packets = self.link.recv(&mut |received| {
            bytes += received.bytes.len();
            hand_on(received, sink);
        })?;
        self.counters.datagrams_received.add(packets as u64);
        Ok(Taken { packets, is_more: bytes >= SMALL_BATCH })
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.link.readiness()
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn next_due(&self) -> Option<Instant> {
        let retry = self.retry.map(|retry| retry.at);
        retry.into_iter().chain(self.link.next_due()).min()
    }
}

impl DatapathSetup for DatagramDatapath {
    fn caps(&self) -> Caps {
        let caps = self.link.caps();
        Caps {
            batch_segments: caps.batch_segments as u32,
            batch_bytes: caps.batch_bytes as u64,
            transmit_segments: caps.batch_segments as u32,
            keyed_quantum: None,
            joint_batches: true,
            segment: SEGMENT,
            receive_buffer: u32::try_from(caps.receive_buffer).unwrap_or(u32::MAX),
            checks_payloads: true,
            crc: Crc::On,
            search_path_mtu: caps.has_hops,
            min_rto: Duration::ZERO,
            congestion_marks: caps.congestion_marks,
            direct: None,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.link.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.link.pair(to)
    }

    fn open(&mut self, _: Owner) -> Result<Vec<u8>, JoinError> {
        Ok(Vec::new())
    }

    fn join(&mut self, _: QpId, _: Partner, routing: &[u8]) -> Result<u32, JoinError> {
        if routing.is_empty() { Ok(u32::MAX) } else { Err(JoinError::PeerOverVerbs) }
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<RoceBatch> {
        self.link.roce_batch(to)
    }

    fn retire(&mut self, _: QpId) {}

    fn close(&mut self, _: QpId) {}

    fn forget_memory(&mut self) {
        self.queue.forget_memory();
    }
}

impl PathInfo for DatagramDatapath {
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.link.max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.link.reach(to)
    }

    fn watch(&mut self, to: AddrPair) {
        self.link.watch(to);
        self.routes.iter().for_each(|routes| routes.watch(to));
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.link.unwatch(to);
        self.routes.iter().for_each(|routes| routes.forget(to));
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.link.use_ecn(to, ecn);
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(Carrier, PortRefused)) {
        self.link.take_refused(&mut |refused| sink(Carrier::default(), refused));
    }

    fn losses(&self) -> Losses {
        self.link.losses()
    }

    fn degradations(&self, rail: usize, to: AddrPair, all: &mut Vec<Degradation>) {
        self.link.degradations(rail, to.remote, all);
    }
}

/// Hands on datagrams, in their order: encrypted ones one by one, the others as far as no encrypted
/// one is between them.
fn hand_on(received: Datagrams<'_>, sink: &mut dyn FnMut(Arrived<'_>)) {
    let Datagrams { from, called, congestion, segment_len, bytes: mut rest } = received;
    let via = via_of(from.port());
    loop {
        let clear = clear_len(rest, segment_len);
        let len = if clear == 0 { segment_len.min(rest.len()) } else { clear };
        let (bytes, later) = rest.split_at_mut(len);
        sink(if is_sealed(bytes) {
            Arrived::Sealed(Envelope { from, called, via, congestion, bytes })
        } else {
            let from = Some(from);
            let closes = None;
            Arrived::Packets(Received { from, called, via, congestion, closes, segment_len, bytes })
        });
        if later.is_empty() {
            return;
        }
        rest = later;
    }
}

/// Number of bytes before the first encrypted datagram.
fn clear_len(bytes: &[u8], segment_len: usize) -> usize {
    let mut datagrams = bytes.chunks(segment_len.max(1));
    datagrams.position(is_sealed).map_or(bytes.len(), |clear| clear * segment_len)
}

fn is_sealed(datagram: &[u8]) -> bool {
    datagram.first() == Some(&(Opcode::Sealed as u8))
}

/// The path of a source port. Packets from other ports have none.
fn via_of(port: u16) -> Via {
    if port >= SOURCE_PORT_BASE { Via::Path(PathId::new(port)) } else { Via::Port }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_port_names_a_path() {
        assert_eq!(via_of(0xC000 | 77), Via::Path(PathId::new(77)));
        assert_eq!(
            via_of(0xF000 | 77),
            Via::Path(PathId::new(77)),
            "taken over from another program"
        );
        assert_eq!(via_of(4791), Via::Port);
    }
}
