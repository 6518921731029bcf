//! The limits of what a stream may send, and the reasons why nothing can be sent.

use braid_wire::RailId;

use super::quantum::OpenBatch;
use crate::stream::per_rail::RailBytes;

/// Limits that the peer and the endpoint set for a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits<'a> {
    /// Packets that the peer tracks beyond its ePSN.
    pub(crate) window: u16,
    /// Segments that it has receive buffers for.
    pub(crate) segments: u32,
    /// Bytes that the endpoint may still have in flight.
    pub(crate) budget: Allowance<'a>,
    /// Bytes of a whole batch.
    pub(crate) batch: u64,
}

/// Bytes of a rail's budget. This type is small because each segment carries it.
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

/// The rest of the endpoint's budget: so many bytes on each rail, less what was spent since.
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

/// The share of a queue pair in what the endpoint may have in flight.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    pub(crate) left: Allowance<'a>,
    /// Bytes that all queue pairs have in flight.
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
    /// The peer: its window, its buffers, the pause that it asked for, or its silence.
    Peer,
    /// The controller's window.
    Window,
    /// The endpoint's budget, which other queue pairs use up: so much of it would do.
    Budget(Need),
    /// The controller's rate: nothing but time is wanting.
    Rate,
}

impl Block {
    /// Chooses, of the blocks of two rails, the one that ends first, as far as one can tell. Time
    /// passes by itself, and others give back budget, the sooner the less is missing.
    pub(crate) fn or(self, other: Block, limits: &SendLimits<'_>) -> Block {
        let wait = |block: &Block| match block {
            Block::Rate => (0, 0),
            Block::Budget(need) => (1, need.bytes().saturating_sub(limits.budget.on(need.rail))),
            Block::Window => (2, 0),
            Block::Peer | Block::Nothing => (3, 0),
        };
        if wait(&other) < wait(&self) { other } else { self }
    }
}
