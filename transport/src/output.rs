//! Output of an endpoint: packets to send, and events.

use braid_wire::{Ack, Control, Crc, Credit, DataHeader, PathId, Probe, QpId, RailId};

use crate::{Access, Egress, Followers, PdId, Placement, QpError, SgList};

/// The index of a queue pair within its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpSlot(pub(crate) u32);

/// A packet to send to the peer, and the queue pair that it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct Transmit {
    /// The queue pair's slot.
    pub slot: QpSlot,
    /// The local port that the packet leaves from.
    pub egress: Egress,
    /// The packet.
    pub body: TransmitBody,
}

/// A packet to send.
#[derive(Clone, PartialEq, Debug)]
// Nearly all bodies are segments; boxing them would cost an allocation each.
#[allow(clippy::large_enum_variant)]
pub enum TransmitBody {
    /// A segment of a message, and those that follow it directly.
    Segment {
        /// The header of the first segment. `payload_crc` is 0: the driver fills it in when `crc`
        /// is on.
        header: DataHeader,
        /// The segments behind the first one; none unless
        /// [`crate::EndpointConfig::transmit_segments`] permits more than one.
        followers: Followers,
        /// The local memory of the payloads of all these segments; empty if there are none.
        gather: SgList,
        /// The protection domain that the memory must belong to.
        pd: PdId,
        /// Permissions that the memory must have.
        access: Access,
        /// The path whose batch and feedback the segment belongs to. If the ports of paths are
        /// blocked, [`Transmit::egress`] is the receiving port of its rail.
        path: PathId,
        /// Whether the first segment starts a batch, or starts what a queue pair adds to one. The
        /// segments after it follow on the same path.
        batch_start: bool,
        /// Whether the payloads carry a CRC.
        crc: Crc,
        /// Whether these segments have become longer than the path MTU and have to leave in parts.
        oversize: bool,
        /// Where the payload is placed on arrival. [`Placement::Direct`] only with
        /// [`crate::EndpointConfig::direct`].
        placement: Placement,
    },
    /// An acknowledgement.
    Ack(Ack),
    /// A probe of the path MTU, or the reply to one.
    Probe(Probe),
    /// A request or grant of credit.
    Credit(Credit),
    /// A control packet: DISCONNECT, CONFIRM, PING, PONG or UNKNOWN.
    Control(Control),
}

/// An event of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The slot of the queue pair.
    pub slot: QpSlot,
    /// The number of the queue pair.
    pub qp: QpId,
    /// The kind of event.
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// The queue pair has gone into ERR, for another cause than its own application. See also
    /// [`crate::QueuePair::error`].
    Ended(QpError),
    /// The queue pair is in SQD, and every work request that had begun has completed.
    Drained,
    /// The path MTU has changed to this number of bytes: the largest datagram that the path to the
    /// peer carries. Applies to all queue pairs towards that peer.
    PathMtu(u16),
    /// Packets from the ports of paths do not reach the peer, but packets from the receiving port
    /// do. From now on all queue pairs towards the peer send from the receiving port only.
    PathsBlocked,
    /// Packets from the ports of paths reach the peer again.
    PathsOpen,
    /// All queue pairs towards the peer have started or stopped to send segments with ECN on this
    /// rail; see [`crate::Endpoint::sends_ecn`].
    Ecn(RailId),
}
