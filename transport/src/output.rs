//! What an endpoint hands out: packets to send, and events.

use braid_wire::{Ack, Control, Crc, DataHeader, PathId, Probe, QpId, RailId};

use crate::{Access, Egress, PdId, Placement, QpError, SgList};

/// A queue pair's place inside its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpSlot(pub(crate) u32);

/// Something to send to the peer.
#[derive(Clone, PartialEq, Debug)]
pub struct Transmit {
    /// Whose it is.
    pub slot: QpSlot,
    /// What it is.
    pub body: TransmitBody,
}

/// What is to be sent.
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
        /// What the memory has to allow.
        access: Access,
        /// The path to take.
        path: PathId,
        /// The first of a batch, or of what a queue pair adds to one. The others follow on the same path.
        batch_start: bool,
        /// Whether the payload carries a check.
        crc: Crc,
        /// It is longer than what the path carries by now, and has to leave in parts.
        oversize: bool,
        /// Where the payload may go on arrival. [`Placement::Direct`] only with [`crate::EndpointConfig::direct`].
        placement: Placement,
    },
    /// An acknowledgement.
    Ack(Ack, Egress),
    /// What the path carries, asked or answered.
    Probe(Probe, Egress),
    /// Tear-down or a sign of life.
    Control(Control, Egress),
}

/// Something that happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its place.
    pub slot: QpSlot,
    /// Its number.
    pub qp: QpId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// It is in ERR, not by its own application; see also [`crate::QueuePair::error`].
    Ended(QpError),
    /// In SQD: everything that was begun has ended.
    Drained,
    /// So many bytes has the largest datagram that the path to the peer carries, for all queue pairs that go there.
    PathMtu(u16),
    /// What leaves from the ports of paths does not reach the peer, what leaves from the receiving port does: so does
    /// everything from now on, of all queue pairs that go there.
    PathsBlocked,
    /// It does reach the peer again.
    PathsOpen,
    /// Segments leave with ECN on this rail from now on, or without, of all queue pairs that go
    /// there; see [`crate::Endpoint::sends_ecn`].
    Ecn(RailId),
}
