//! Output of an endpoint: packets to send, and events.

use braid_wire::{Ack, Control, Crc, DataHeader, PathId, Probe, QpId, RailId};

use crate::{Access, Egress, PdId, Placement, QpError, SgList};

/// A queue pair's place inside its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpSlot(pub(crate) u32);

/// Something to send to the peer.
#[derive(Clone, PartialEq, Debug)]
pub struct Transmit {
    /// The queue pair's place.
    pub slot: QpSlot,
    /// The local port that it leaves from.
    pub egress: Egress,
    /// The packet.
    pub body: TransmitBody,
}

/// A packet to send.
#[derive(Clone, PartialEq, Debug)]
// Segments are nearly all there is; boxing them would cost an allocation each.
#[allow(clippy::large_enum_variant)]
pub enum TransmitBody {
    /// A segment of a message.
    Segment {
        /// Its header. `payload_crc` is 0: the driver fills it in when `crc` is on.
        header: DataHeader,
        /// The local memory that it carries, empty if none.
        gather: SgList,
        /// The domain that the memory has to belong to.
        pd: PdId,
        /// Permissions that the memory needs.
        access: Access,
        /// Its path. If the ports of paths are blocked, it leaves from the receiving port of the
        /// path's rail all the same: see [`Transmit::egress`].
        path: PathId,
        /// The first segment of a batch, or of what a queue pair adds to one. The others follow on
        /// the same path.
        batch_start: bool,
        /// Whether the payload carries a check.
        crc: Crc,
        /// The segment is longer than what the path carries by now, and has to leave in parts.
        oversize: bool,
        /// Place of the payload on arrival. [`Placement::Direct`] only with
        /// [`crate::EndpointConfig::direct`].
        placement: Placement,
    },
    /// An acknowledgement.
    Ack(Ack),
    /// A probe of the path MTU, or its answer.
    Probe(Probe),
    /// Tear-down or a sign of life.
    Control(Control),
}

/// Something that happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its place.
    pub slot: QpSlot,
    /// Its number.
    pub qp: QpId,
    /// The event.
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// The queue pair is in ERR, not by its own application; see also [`crate::QueuePair::error`].
    Ended(QpError),
    /// In SQD: everything that was begun has ended.
    Drained,
    /// The path MTU has changed: bytes of the largest datagram that the path to the peer carries,
    /// for all queue pairs that go there.
    PathMtu(u16),
    /// Packets from the ports of paths do not reach the peer, those from the receiving port do.
    /// From now on everything leaves from there, for all queue pairs that go to the peer.
    PathsBlocked,
    /// Packets from the ports of paths reach the peer again.
    PathsOpen,
    /// Segments leave with ECN on this rail from now on, or without, of all queue pairs that go
    /// there; see [`crate::Endpoint::sends_ecn`].
    Ecn(RailId),
}
