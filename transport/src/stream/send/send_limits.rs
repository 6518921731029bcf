//! What a stream is left to send, and why nothing can be sent.

use braid_wire::RailId;

use super::quantum::OpenBatch;
use crate::stream::per_rail::RailBytes;

/// What the peer and the endpoint leave a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits<'a> {
    /// Packets that the peer tracks beyond its ePSN.
    pub(crate) window: u16,
    /// Segments that it has receive buffers for.
    pub(crate) segments: u32,
    /// What the endpoint may still have in flight.
    pub(crate) budget: Allowance<'a>,
    /// Bytes of a whole batch.
    pub(crate) batch: u64,
}

/// So much of a rail's budget. It stands in what is handed on for each segment, and is small for that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    rail: RailId,
    bytes: u32,
}

impl Need {
    /// Nothing of any.
    pub(crate) const NOTHING: Need = Need { rail: RailId::FIRST, bytes: 0 };

    #[inline]
    pub(crate) fn new(rail: RailId, bytes: u64) -> Self {
        Need { rail, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
    }

    #[inline]
    pub(crate) fn rail(self) -> RailId {
        self.rail
    }

    #[inline]
    pub(crate) fn bytes(self) -> u64 {
        self.bytes.into()
    }
}

/// What is left of the endpoint's budget: so many bytes on each rail, less what was spent since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance<'a> {
    pub(crate) bytes: &'a RailBytes,
    pub(crate) spent: Need,
}

impl Allowance<'_> {
    #[inline]
    pub(crate) fn on(&self, rail: RailId) -> u64 {
        let bytes = self.bytes[rail];
        if rail == self.spent.rail { bytes.saturating_sub(self.spent.bytes()) } else { bytes }
    }
}

/// What the endpoint lets a queue pair put in flight.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    pub(crate) left: Allowance<'a>,
    /// What all queue pairs have in flight.
    pub(crate) in_flight: &'a RailBytes,
    /// Others wait for it.
    pub(crate) is_shared: bool,
    /// No other queue pair has anything in flight.
    pub(crate) is_alone: bool,
    /// The batch that it may join, and then the one that it has joined or begun.
    pub(crate) batch: &'a mut OpenBatch,
}

/// Why nothing can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// There is nothing to send.
    Nothing,
    /// The peer: the packets that it tracks, its buffers, the pause that it has asked for, or its silence.
    Peer,
    /// The controller's window.
    Window,
    /// The endpoint's budget, which other queue pairs use up: so much of it would do.
    Budget(Need),
    /// The controller's rate: nothing but time is wanting.
    Rate,
}

impl Block {
    /// Of what blocks two rails, that which ends first, as far as one can tell: time passes by itself, and others give back
    /// budget, the sooner the less is wanting.
    pub(crate) fn or(self, other: Block, room: &SendLimits<'_>) -> Block {
        let wait = |block: &Block| match block {
            Block::Rate => (0, 0),
            Block::Budget(need) => (1, need.bytes().saturating_sub(room.budget.on(need.rail))),
            Block::Window => (2, 0),
            Block::Peer | Block::Nothing => (3, 0),
        };
        if wait(&other) < wait(&self) { other } else { self }
    }
}
