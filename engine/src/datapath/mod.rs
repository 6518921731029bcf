//! The traits between a worker and the wire.
//!
//! A [`Datapath`] sends the packets that the protocol core has decided on, and hands over the
//! packets that have arrived. It owns its sockets or queue pairs, its batches and its buffers. The
//! two ends of a connection exchange routing information in their set-up packets, which only the
//! datapath reads (as with eRPC's `Transport`).

pub(crate) mod datagram;
mod error;
pub(crate) mod segment_bytes;
mod segment_run;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::slice::Chunks;
use std::time::{Duration, Instant};

use braid_transport::{
    Access, AddrPair, Carrier, DirectConfig, LocalAddr, NicEpoch, PdId, Regions, SgList,
};
use braid_wire::{Crc, DataHeader, PathId, QpId, Time, Token};

use crate::degradation::Degradation;
use crate::discovery::PathMap;
use crate::link::roce_batch::RoceBatch;
use crate::paths_to::PathRoute;

pub use self::error::JoinError;
pub(crate) use self::segment_run::{Readable, SegmentRun};
pub(crate) use crate::link::{LinkLosses as Losses, PortRefused, Reach, Via};

/// The trouble of an attempt to connect with the first carrier of a datapath.
#[derive(Default)]
pub(crate) struct CarrierTrouble {
    /// The number of long HELLOs without an answer.
    pub(crate) unanswered: u32,
    /// The system's reason why none of them can have arrived.
    pub(crate) refused: Option<String>,
}

/// The capabilities of a datapath.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Caps {
    /// The largest number of packets in a batch. 1: packets leave one by one.
    pub(crate) batch_segments: u32,
    /// The largest number of bytes in a batch, all packets together.
    pub(crate) batch_bytes: u64,
    /// The largest number of segments that [`Datapath::send_segments`] takes at a time.
    pub(crate) transmit_segments: u32,
    /// Maximum number of segments of a path quantum of a keyed connection, unless the application
    /// configures another. `None`: a batch.
    pub(crate) keyed_quantum: Option<u32>,
    /// Whether packets of several queue pairs may share a batch.
    pub(crate) joint_batches: bool,
    /// Payload bytes of a full segment, unless the application configures another size.
    pub(crate) segment: u16,
    /// Bytes of packets that the receiving side holds before it drops. `u32::MAX`: it never drops.
    pub(crate) receive_buffer: u32,
    /// Whether Braid checks and protects payloads. Otherwise the medium does.
    pub(crate) checks_payloads: bool,
    /// Whether payloads carry a CRC unless the configuration says so.
    pub(crate) crc: Crc,
    /// Whether the path may carry less than the host's own link, so that the path MTU has to be
    /// searched for.
    pub(crate) search_path_mtu: bool,
    /// The shortest useful retransmission time-out, see [`braid_transport::Remote::min_rto`].
    pub(crate) min_rto: Duration,
    /// Whether the datapath reports congestion marks (ECN CE) of arrived packets.
    pub(crate) congestion_marks: bool,
    /// Set if the receiving NIC places payloads before software sees them.
    pub(crate) direct: Option<DirectConfig>,
}

impl Caps {
    /// The common capabilities of two rails of one connection, which may use either rail for any
    /// packet.
    pub(crate) fn and(self, other: Caps) -> Caps {
        let shorter = |a: DirectConfig, b: DirectConfig| DirectConfig {
            long: a.long.min(b.long),
            short: a.short.min(b.short),
            hold_down: a.hold_down.max(b.hold_down),
        };
        Caps {
            batch_segments: self.batch_segments.min(other.batch_segments),
            batch_bytes: self.batch_bytes.min(other.batch_bytes),
            transmit_segments: self.transmit_segments.min(other.transmit_segments),
            keyed_quantum: self.keyed_quantum.zip(other.keyed_quantum).map(|(a, b)| a.min(b)),
            joint_batches: self.joint_batches && other.joint_batches,
            segment: self.segment.min(other.segment),
            receive_buffer: self.receive_buffer.min(other.receive_buffer),
            checks_payloads: self.checks_payloads || other.checks_payloads,
            crc: if self.crc == Crc::On { self.crc } else { other.crc },
            search_path_mtu: self.search_path_mtu || other.search_path_mtu,
            min_rto: self.min_rto.max(other.min_rto),
            congestion_marks: self.congestion_marks && other.congestion_marks,
            direct: self.direct.zip(other.direct).map(|(a, b)| shorter(a, b)),
        }
    }
}

/// This end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) id: QpId,
    pub(crate) token: Token,
    pub(crate) pd: PdId,
    pub(crate) access: Access,
}

/// The peer's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partner {
    pub(crate) id: QpId,
    pub(crate) token: Token,
    pub(crate) ip: IpAddr,
    /// The traffic class of packets to it.
    pub(crate) traffic_class: u8,
}

/// Packets of one sender that have arrived together. All have the same length, except that the
/// last may be shorter.
pub(crate) struct Received<'a> {
    /// The sender. `None`: the datapath cannot tell, and only the packet's token identifies it.
    pub(crate) from: Option<SocketAddr>,
    /// The destination address, if the datapath is bound to a wildcard.
    pub(crate) called: LocalAddr,
    /// The sender's port.
    pub(crate) via: Via,
    /// Whether each packet carries a congestion mark (ECN CE).
    pub(crate) congestion: bool,
    /// An epoch that another rail of this queue pair's connection has to close before the core may
    /// take the packet.
    pub(crate) closes: Option<(QpId, NicEpoch)>,
    /// Bytes of each packet but the last.
    pub(crate) segment_len: usize,
    /// The bytes of all packets.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Received<'a> {
    /// Returns the bytes of each packet, in the order of arrival.
    pub(crate) fn packets(&self) -> Chunks<'a, u8> {
        self.bytes.chunks(self.segment_len.max(1))
    }
}

/// An encrypted packet of a keyed connection.
pub(crate) struct Envelope<'a> {
    /// The sender.
    pub(crate) from: SocketAddr,
    /// The destination address, if the datapath is bound to a wildcard.
    pub(crate) called: LocalAddr,
    /// The sender's port.
    pub(crate) via: Via,
    /// Whether the packet carries a congestion mark (ECN CE).
    pub(crate) congestion: bool,
    /// The bytes of the packet, which are decrypted in place.
    pub(crate) bytes: &'a mut [u8],
}

/// An arrival that a datapath hands to the worker.
pub(crate) enum Arrived<'a> {
    /// Packets that are not encrypted.
    Packets(Received<'a>),
    /// An encrypted packet.
    Sealed(Envelope<'a>),
    /// The header of a segment whose payload is still arriving, the sender, and the answer: where
    /// the payload may be written now, and whether it has a CRC. `None`: nowhere.
    Ahead(SocketAddr, PathId, &'a DataHeader, &'a mut Option<(SgList, Crc)>),
    /// The header of a segment whose payload is already placed.
    Placed(PathId, &'a DataHeader),
    /// The peer has closed all epochs of a path before this one.
    Epoch(QpId, NicEpoch),
    /// The queue pair's connection was full and takes segments again.
    Room(QpId),
    /// A packet asked to close an epoch that does not exist.
    Refused,
    /// Path discovery for a watched peer has finished.
    Routes(AddrPair, &'a PathMap),
    /// The device is gone, and every connection with it.
    Failed,
}

/// The outcome of closing an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// Nothing that was sent to the epoch is placed any more.
    Done,
    /// Such data may still be placed, because the device has not closed the epoch.
    NotYet,
    /// The datapath never announced such an epoch.
    Refused,
}

/// The result of receiving once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// The number of packets that had arrived.
    pub(crate) packets: usize,
    /// Whether more packets may have arrived already.
    pub(crate) is_more: bool,
}

impl Taken {
    /// The results of two datapaths together.
    pub(crate) fn and(self, other: Taken) -> Taken {
        Taken { packets: self.packets + other.packets, is_more: self.is_more || other.is_more }
    }
}

/// The result of sending segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sent {
    /// Whether the NIC places the payload at the peer.
    pub(crate) is_direct: bool,
    /// Whether the connection is full until [`Arrived::Room`].
    pub(crate) is_full: bool,
}

/// Whether the datapath can take another segment of a connection that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// There is room.
    Open,
    /// There is room, because complete batches have just been sent.
    Emptied,
    /// There is no room until something else has been sent. Try again a little later.
    Full,
    /// As `Full`, because the queue of the network device is full: senders have to slow down.
    DeviceFull,
}

/// Moves packets between a worker and its peers: the calls of every poll. One thread at a time owns
/// a datapath.
///
/// The calls for one connection come in this order: [`DatapathSetup::open`],
/// [`DatapathSetup::join`] when the peer's routing information is known, the packets,
/// [`DatapathSetup::retire`], [`DatapathSetup::close`].
pub(crate) trait Datapath: DatapathSetup + PathInfo + Send {
    /// Sends complete batches to make room for another segment.
    fn make_room(&mut self) -> Room;

    /// Takes segments of a connection that is not full. Encrypts them if the connection is keyed.
    /// The result tells the core whether a segment for direct placement was staged instead.
    fn send_segments(&mut self, now: Time, segments: &mut SegmentRun<'_>) -> Sent;

    /// Takes an acknowledgement or control packet of a queue pair's connection.
    fn send_packet(&mut self, id: QpId, to: AddrPair, via: Via, packet: &[u8]);

    /// Takes a packet that belongs to no connection.
    fn send_datagram(&mut self, to: AddrPair, via: Via, packet: &[u8]);

    /// Takes packets that share their batch with no others. No other packet is lost with a probe
    /// that is too long for its path, and ICRCs of plain RoCEv2 depend on the places in the batch.
    /// All packets have `segment_len` bytes; the last may be shorter. The vector comes back empty.
    fn send_alone(&mut self, to: AddrPair, via: Via, packets: &mut Vec<u8>, segment_len: usize);

    /// Takes packets of plain RoCEv2, as in [`Datapath::send_alone`]. `ecn`: whether they leave
    /// ECN-capable.
    fn send_roce(&mut self, to: AddrPair, packets: &mut Vec<u8>, segment_len: usize, _ecn: bool) {
        self.send_alone(to, Via::Port, packets, segment_len);
    }

    /// Sends all packets that were taken. Returns `false` if the datapath is full and some are
    /// left.
    fn flush(&mut self) -> bool;

    /// Hands the packets that have arrived to `sink`, within a budget, without blocking. `regions`
    /// is the worker's snapshot of the region table.
    fn receive(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken>;

    /// Descriptors that become readable when a packet may have arrived after [`Datapath::arm`].
    /// `None`: the worker has to poll. They live as long as the datapath.
    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// Prepares for sleep. Returns whether a packet may have arrived in the meantime that makes no
    /// descriptor readable.
    fn arm(&mut self) -> bool;

    /// The next time at which the worker has to call although no packet arrives.
    fn next_due(&self) -> Option<Instant>;
}

/// Set-up of a datapath's connections, and their end.
pub(crate) trait DatapathSetup {
    /// The capabilities of the datapath, or of its first carrier. They never change.
    fn caps(&self) -> Caps;

    /// The capabilities of its further carriers.
    fn further_carriers(&self) -> Vec<Caps> {
        Vec::new()
    }

    /// The address of the receiving port. Set-up packets arrive there on every datapath.
    fn local_addr(&self) -> SocketAddr;

    /// Adds the local address and the interface that packets to `to` have to leave by.
    fn pair(&self, to: SocketAddr) -> AddrPair;

    /// Prepares this end of a connection and ends an earlier one of the same queue pair. Returns
    /// the routing information for the peer's datapath.
    fn open(&mut self, owner: Owner) -> Result<Vec<u8>, JoinError>;

    /// Joins this end with the peer's. Returns the number of segments that may be in flight towards
    /// the peer. An error closes the connection.
    fn join(&mut self, id: QpId, partner: Partner, routing: &[u8]) -> Result<u32, JoinError>;

    /// Stops placing payloads for this queue pair. Acknowledgements can still be sent.
    fn retire(&mut self, id: QpId);

    /// Ends the connection of this queue pair.
    fn close(&mut self, id: QpId);

    /// Ends placement for an epoch of one path and tells the peer the next epoch. The worker calls
    /// this when a packet of another rail asks for it, see [`Received::closes`].
    fn close_epoch(&mut self, _: Time, _: QpId, _: NicEpoch) -> Closing {
        Closing::Refused
    }

    /// The carrier by which a connection to `to` is attempted first.
    fn carrier_to(&self, _to: SocketAddr) -> Carrier {
        Carrier::default()
    }

    /// The identifications in batches of plain RoCEv2 to `to`. `None`: the datapath carries none.
    fn roce_batch(&self, _to: SocketAddr) -> Option<RoceBatch> {
        None
    }

    /// Records the reason why a connection to `to` was made by another carrier than the first.
    fn fell_back(&mut self, _to: AddrPair, _trouble: &CarrierTrouble) {}

    /// Drops every reference to memory of regions that have left the region table.
    fn forget_memory(&mut self);
}

/// Knowledge of the network paths towards the peers, and of their defects.
pub(crate) trait PathInfo {
    /// Bytes of the longest datagram (UDP payload) that the first hop towards `to` carries, as far
    /// as the host knows.
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize>;

    /// Bytes of the longest data packet towards `to`, headers included, as far as the host knows.
    fn max_packet(&self, to: AddrPair) -> io::Result<usize> {
        self.max_datagram(to)
    }

    /// A second socket that asks the system whether `to` can be reached. `None`: the system does
    /// not know.
    fn reach(&self, to: AddrPair) -> Option<Reach>;

    /// Starts path discovery towards a peer that has connections now.
    fn watch(&mut self, _to: AddrPair) {}

    /// Stops path discovery towards a peer that has no connections any more.
    fn unwatch(&mut self, _to: AddrPair) {}

    /// Sets whether segments to `to` may leave ECN-capable, for as long as the peer is watched.
    /// Default: they may.
    fn use_ecn(&mut self, _to: SocketAddr, _ecn: bool) {}

    /// Takes note of whether a watched peer has answered lately. The worker calls this again and
    /// again while the peer is silent.
    fn on_silence(&mut self, _to: AddrPair, _is_silent: bool) {}

    /// Reports the ports that hosts have refused (ICMP port unreachable) since the last call, with
    /// the carrier. The call costs system calls, so the worker makes it when a peer is silent.
    fn take_refused(&mut self, _sink: &mut dyn FnMut(Carrier, PortRefused)) {}

    /// Packets lost so far.
    fn losses(&self) -> Losses;

    /// Adds the connections of the paths to all watched peers, where paths are connections. Their
    /// rail is set by the caller.
    fn routes(&self, _all: &mut Vec<PathRoute>) {}

    /// Adds the degradations of rail `rail` towards `to`.
    fn degradations(&self, _rail: usize, _to: AddrPair, _all: &mut Vec<Degradation>) {}
}
