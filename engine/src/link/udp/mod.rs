//! The link over plain UDP sockets: one to receive, and one per path to send.
//!
//! A batch is one `sendmsg` with `UDP_SEGMENT` (GSO). The kernel merges arriving datagrams (GRO),
//! and one `recvmsg` returns them. Measurements show that sending or receiving packet by packet
//! takes seven to ten times as long.

mod addresses;
pub(crate) mod cut;
mod device_queue;
pub(crate) mod error_queue;
mod fallbacks;
mod interface;
mod packet_info;
mod paths;
mod reach;
mod recv;
mod refused;
mod send;
mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use braid_transport::EndpointConfig;
use socket2::Socket;

pub(crate) use self::addresses::{canonical, of_version};
use self::addresses::{for_receiver, reachable};
use self::cut::Cutter;
use self::device_queue::DeviceQueue;
use self::fallbacks::{Fallbacks, RefusedOptions};
use self::interface::OwnInterfaces;
pub(crate) use self::interface::RailInterface;
use self::packet_info::PacketInfo;
use self::paths::PathSockets;
pub(crate) use self::reach::Reach;
use self::refused::RefusedList;
pub(crate) use self::send::TrafficClass;
use self::send::{Addressing, Refusal, send_each, send_once};
pub(crate) use self::socket::{enable_icmp_errors, leave_by, open_path, route_mtu, sends_from};
use super::{
    AddrPair, DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, PortRefused, SendResult, Via,
};
use crate::degradation::Degradation;
use crate::link::roce_batch::RoceBatch;

/// The largest number of segments in a GSO call.
const MAX_SEGMENTS: usize = EndpointConfig::GSO_SEGMENTS as usize;
/// The largest number of bytes in a GSO call.
const MAX_BATCH: usize = EndpointConfig::GSO_BYTES as usize;
/// The size of the receive buffer. The largest UDP payload is 65,527 bytes.
const BOUNCE: usize = 1 << 16;
/// The largest number of errors of earlier sends that are taken between two receives, so that a
/// flood of forged ICMP messages does not block the worker.
const MOST_ERRORS: u32 = 4;
/// The largest number of slices in a batch (`UIO_MAXIOV`).
const MAX_SLICES: usize = 1024;

/// Events of a [`UdpLink`] that its user does not see as errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UdpCounters {
    /// Sends without a path: no route, no neighbour, a firewall, a closed port.
    pub(crate) unreachable: u64,
    /// Datagrams lost because the socket filled up in the middle of a batch. This occurs only if
    /// the kernel refuses GSO.
    pub(crate) cut_short: u64,
    /// Batches that the device's queue has refused for so long that they were dropped.
    pub(crate) dropped: u64,
    /// Received batches dropped because they, or their control messages, were longer than expected.
    pub(crate) truncated: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full, as far as a later
    /// datagram has reported.
    pub(crate) overflowed: u64,
}

/// Datagrams over the UDP sockets of this machine.
///
/// Path `p` sends from source port `0xC000 | p`, which several processes on one host share, because
/// they never receive there. If another program holds that port, the path takes one of `0xF000 |
/// p`, `0xE000 | p`, `0xD000 | p`. Each path still has one port, in RoCEv2's range for source
/// ports.
pub(crate) struct UdpLink {
    receiver: Socket,
    paths: PathSockets,
    local: SocketAddr,
    caps: LinkCaps,
    interface: RailInterface,
    bounce: Box<[u8]>,
    fallbacks: Fallbacks,
    /// The refused options of the receiving socket.
    refused_options: RefusedOptions,
    counters: UdpCounters,
    refused: RefusedList,
    device_queue: DeviceQueue,
    /// The receiving socket's count of drops when last read. It wraps.
    kernel_drops: u32,
}

impl UdpLink {
    /// Binds the receiving port `addr` with room for `receive_buffer` bytes, or as much as the
    /// system grants; see [`LinkCaps::receive_buffer`]. Port 0: any free port.
    ///
    /// `[::]` serves IPv4 and IPv6, or only IPv4 if the kernel has no IPv6.
    ///
    /// # Errors
    ///
    /// The port is in use, the address is not this machine's, or there is no socket left.
    pub(crate) fn bind(addr: SocketAddr, receive_buffer: usize) -> io::Result<UdpLink> {
        let mut refused_options = RefusedOptions::default();
        let receiver =
            socket::open_receiver(canonical(addr), receive_buffer, &mut refused_options)?;
        UdpLink::over(receiver, refused_options)
    }

    /// A link over the receiving socket of another one.
    pub(crate) fn of(receiver: OwnedFd) -> io::Result<UdpLink> {
        UdpLink::over(receiver.into(), RefusedOptions::default())
    }

    fn over(receiver: Socket, refused_options: RefusedOptions) -> io::Result<UdpLink> {
        let local = socket::local_addr(&receiver)?;
        let caps = LinkCaps {
            batch_segments: if socket::knows_gso(&receiver) { MAX_SEGMENTS } else { 1 },
            batch_bytes: MAX_BATCH,
            // The kernel doubles the requested size to account for its own overhead.
            receive_buffer: receiver.recv_buffer_size()? / 2,
            has_hops: true,
            congestion_marks: !refused_options.has("IP_RECVTOS")
                && !refused_options.has("IPV6_RECVTCLASS"),
        };
        Ok(UdpLink {
            receiver,
            paths: PathSockets::new(local),
            local,
            caps,
            interface: rail_interface(local.ip()),
            bounce: vec![0; BOUNCE].into_boxed_slice(),
            fallbacks: Fallbacks::default(),
            refused_options,
            counters: UdpCounters::default(),
            refused: RefusedList::default(),
            device_queue: DeviceQueue::default(),
            kernel_drops: 0,
        })
    }

    /// Accepts RoCEv2 packets without a UDP checksum, which their ICRC protects. The kernel's rxe
    /// sends such packets over IPv6.
    pub(crate) fn accept_unchecked(&mut self) {
        if self.local.is_ipv6() {
            socket::accept_unchecked(&self.receiver, &mut self.refused_options);
        }
    }

    /// The receiving socket, for another link.
    pub(crate) fn receiver(&self) -> io::Result<OwnedFd> {
        self.receiver.as_fd().try_clone_to_owned()
    }

    /// The source port of a batch by `via` to `to`.
    pub(crate) fn source_port(&mut self, via: Via, to: &AddrPair) -> io::Result<u16> {
        match via {
            Via::Path(path) => {
                let to = AddrPair { remote: canonical(to.remote), ..*to };
                Ok(self.paths.get(path, &to)?.port())
            }
            Via::Port => Ok(self.local.port()),
        }
    }

    /// The traffic class of the datagrams of a batch.
    pub(crate) fn traffic_class(&self, batch: &DatagramBatch<'_>) -> TrafficClass {
        let AddrPair { remote, local } = batch.to;
        TrafficClass {
            is_ipv4: remote.ip().to_canonical().is_ipv4(),
            dscp: local.traffic_class,
            ecn: batch.ecn && self.fallbacks.sends_ecn(remote),
        }
    }

    /// Sends a batch or a part of it. `send` gets the socket, and the address unless the socket is
    /// connected.
    fn send_by<T>(
        &mut self,
        batch: &DatagramBatch<'_>,
        send: impl Fn(RawFd, &Addressing) -> io::Result<T>,
    ) -> io::Result<T> {
        let AddrPair { remote, local } = batch.to;
        let traffic_class = self.traffic_class(batch);
        let reached = reachable(self.local, remote)?;
        let pair = AddrPair { remote: reached, local };
        let place = match batch.via {
            Via::Path(path) => self.paths.choose(path, &pair)?,
            Via::Port => None,
        };
        let Some(place) = place else {
            let to = Some(for_receiver(self.local, reached));
            let from = PacketInfo::of(self.local, local);
            let addressing = Addressing { to, from, traffic_class };
            let again = || send(self.receiver.as_raw_fd(), &addressing);
            return match again() {
                // An earlier datagram was refused, perhaps by another destination.
                Err(error) if may_be_earlier(&error) => {
                    self.refused.read(&self.receiver, Via::Port);
                    let sent = again();
                    // The system also queues errors of its own. A sleeping thread would wake as
                    // long as the queue holds any.
                    if sent.is_err() {
                        self.refused.read(&self.receiver, Via::Port);
                    }
                    sent
                }
                sent => sent,
            };
        };
        let remote = reached;
        let socket = self.paths.at(place);
        let addressing = socket.aim(remote, traffic_class);
        match send(socket.socket().as_raw_fd(), &addressing) {
            Err(error) if may_be_earlier(&error) => {
                self.refused.read(socket.socket(), batch.via);
                if !socket.is_connected() {
                    return send(socket.socket().as_raw_fd(), &addressing);
                }
                // The error queue may have had no room.
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.refused.add(remote, batch.via);
                }
                // A connected socket keeps its local address. A new socket has none.
                self.paths.close(place.path, &pair);
                let socket = self.paths.get(place.path, &pair)?;
                let addressing = socket.unconnected(remote, traffic_class);
                send(socket.socket().as_raw_fd(), &addressing)
            }
            sent => sent,
        }
    }

    /// Refuses batches that no kernel takes, so that a refusal of the kernel has one meaning.
    /// Returns the number of datagrams.
    fn check(&self, batch: &DatagramBatch<'_>) -> io::Result<usize> {
        let bytes = bytes_of(batch);
        let datagrams = bytes.div_ceil(batch.segment_len.max(1));
        let fits = (1..=self.caps.batch_segments).contains(&datagrams)
            && bytes <= self.caps.batch_bytes
            && batch.slices.len() <= MAX_SLICES;
        if fits && batch.segment_len > 0 {
            return Ok(datagrams);
        }
        Err(invalid(format!(
            "a batch of {bytes} bytes in {datagrams} datagrams and {} slices; \
             at most {} in {} and {MAX_SLICES}",
            batch.slices.len(),
            self.caps.batch_bytes,
            self.caps.batch_segments,
        )))
    }

    /// Sends a batch without GSO.
    fn send_singly(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        let (mut cutter, mut slices, mut ends) = (Cutter::new(batch), Vec::new(), Vec::new());
        while cutter.next_datagram(|slice| slices.push(slice)) > 0 {
            ends.push(slices.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let datagrams: Vec<_> = starts.zip(&ends).map(|(from, to)| &slices[from..*to]).collect();
        let mut gone = 0;
        while gone < datagrams.len() {
            match self.send_by(batch, |fd, to| send_each(fd, to, &datagrams[gone..])) {
                Ok(count) => {
                    self.device_queue.on_sent(batch.to.remote.ip());
                    gone += count;
                }
                Err(error) => {
                    match self.judge(error, batch)? {
                        SendResult::Gone => {}
                        full if gone == 0 => return Ok(full),
                        // The first part has been sent, so the caller must not send the batch
                        // again.
                        _ => self.counters.cut_short += 1,
                    }
                    gone += 1;
                }
            }
        }
        Ok(SendResult::Gone)
    }

    /// Translates the error of a refused send for the caller.
    fn judge(&mut self, error: io::Error, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        match Refusal::of(&error) {
            Refusal::Full => Ok(SendResult::Full),
            Refusal::Dropped => {
                if self.device_queue.on_refused(batch.to.remote.ip(), Instant::now()) {
                    return Ok(SendResult::DeviceFull);
                }
                self.counters.dropped += 1;
                Ok(SendResult::Gone)
            }
            Refusal::Unreachable => Ok(self.lost(&error, batch.to.remote)),
            // For a batch that `check` has accepted, this is the error of a blackhole route.
            Refusal::Segmentation if error.raw_os_error() == Some(libc::EINVAL) => {
                Ok(self.lost(&error, batch.to.remote))
            }
            Refusal::TooLarge => Err(invalid(format!(
                "a datagram of {} bytes does not fit the MTU towards {}: at most {} do",
                batch.segment_len.min(bytes_of(batch)),
                batch.to.remote,
                self.max_datagram(batch.to)?,
            ))),
            Refusal::Segmentation | Refusal::Other => Err(io::Error::new(
                error.kind(),
                format!("sending to {}: {error}", batch.to.remote),
            )),
        }
    }

    /// A route may come back, and only the protocol knows how long to wait for it.
    fn lost(&mut self, error: &io::Error, to: SocketAddr) -> SendResult {
        if self.counters.unreachable == 0 {
            tracing::warn!(%to, %error, "datagrams find no way; counted from now on, not logged");
        }
        self.counters.unreachable += 1;
        SendResult::Gone
    }
}

impl Link for UdpLink {
    fn losses(&self) -> LinkLosses {
        LinkLosses {
            overflowed: self.counters.overflowed + self.counters.truncated,
            unreachable: self.counters.unreachable
                + self.counters.cut_short
                + self.counters.dropped,
            injected: 0,
        }
    }

    fn caps(&self) -> LinkCaps {
        self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.interface.pair(to)
    }

    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        let to = AddrPair { remote: reachable(self.local, to.remote)?, ..to };
        let headers = if to.remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let mtu = socket::route_mtu(self.local, to)?;
        Ok(mtu.saturating_sub(headers).min(MAX_BATCH))
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        let made = Reach::open(self.local, to);
        let remote = to.remote;
        made.inspect_err(|error| tracing::debug!(to = %remote, %error, "nobody can be asked")).ok()
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.fallbacks.use_ecn(to, ecn);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.fallbacks.use_ecn(to.remote, true);
    }

    fn degradations(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        self.refused_options.list(rail, all);
        self.paths.refused_options().list(rail, all);
        self.fallbacks.list(rail, to, all);
        let misrouted = self.interface.misrouting(to);
        all.extend(misrouted.map(|cause| Degradation::RailMisrouted { rail, to, cause }));
        if self.caps.batch_segments == 1 {
            let (to, errno) = (canonical(to).ip(), libc::ENOPROTOOPT);
            all.push(Degradation::SegmentationRefused { rail, to, errno });
        }
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        self.paths.open_first(count)
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<RoceBatch> {
        // Segmentation counts from the identification of an unconnected socket, which is 0.
        let is_segmented = self.fallbacks.segments(to.ip());
        Some(if is_segmented { RoceBatch::Numbered } else { RoceBatch::Zero })
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        let datagrams = self.check(batch)?;
        let alone = datagrams == 1;
        if !alone && !self.fallbacks.segments(batch.to.remote.ip()) {
            return self.send_singly(batch);
        }
        let segment = (!alone).then_some(batch.segment_len as u16);
        match self.send_by(batch, |fd, to| send_once(fd, to, batch.slices, segment)) {
            Ok(()) => {
                self.device_queue.on_sent(batch.to.remote.ip());
                if !alone {
                    self.fallbacks.on_segmented(batch.to.remote.ip());
                }
                Ok(SendResult::Gone)
            }
            Err(error) if !alone && Refusal::of(&error) == Refusal::Segmentation => {
                // The same error has other causes. If single datagrams pass, the cause was GSO.
                let lost = self.counters.unreachable;
                let sent = self.send_singly(batch)?;
                if sent == SendResult::Gone && lost == self.counters.unreachable {
                    self.fallbacks.on_refused(batch.to.remote.ip(), &error);
                }
                Ok(sent)
            }
            Err(error) => self.judge(error, batch),
        }
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        let mut errors = 0;
        while errors < MOST_ERRORS {
            let received = match recv::recv_batch(self.receiver.as_raw_fd(), &mut self.bounce) {
                Err(error) => {
                    let is_told_once =
                        matches!(Refusal::of(&error), Refusal::Unreachable | Refusal::TooLarge);
                    // The error concerns an earlier datagram.
                    if self.refused.read(&self.receiver, Via::Port) || is_told_once {
                        errors += 1;
                        continue;
                    }
                    return Err(error);
                }
                Ok(received) => received,
            };
            let Some(batch) = received else { return Ok(0) };
            if let Some(drops) = batch.kernel_drops {
                self.counters.overflowed += u64::from(drops.wrapping_sub(self.kernel_drops));
                self.kernel_drops = drops;
            }
            if batch.truncated {
                self.counters.truncated += 1;
                continue;
            }
            return Ok(batch.hand_out(&mut self.bounce, sink));
        }
        Ok(0)
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(PortRefused)) {
        let UdpLink { receiver, paths, refused, .. } = self;
        refused.read(receiver, Via::Port);
        paths.each(|path, socket| {
            refused.read(socket, Via::Path(path));
        });
        refused.take().into_iter().for_each(sink);
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.receiver.as_fd()])
    }
}

/// Without its interfaces the routing table chooses.
pub(crate) fn rail_interface(ip: IpAddr) -> RailInterface {
    let own = OwnInterfaces::of(ip);
    let told = own.inspect_err(
        |error| tracing::info!(%ip, %error, "interfaces not listed: the routing table chooses"),
    );
    RailInterface::new(told.ok().flatten())
}

/// Whether an error of a socket may concern an earlier datagram, because an ICMP message has
/// arrived since.
fn may_be_earlier(error: &io::Error) -> bool {
    !matches!(Refusal::of(error), Refusal::Full | Refusal::Dropped)
}

fn bytes_of(batch: &DatagramBatch<'_>) -> usize {
    batch.slices.iter().map(|slice| slice.len()).sum()
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
