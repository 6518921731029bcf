//! The limits of what a stream may send, and the reasons why nothing can be sent.

use braid_wire::RailId;

use super::quantum::OpenBatch;
use crate::stream::per_rail::RailBytes;

/// Limits that the peer and the endpoint set for a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits<'a> {
    /// Packets that the peer tracks beyond its ePSN.
    pub(crate) window: u16,
    /// Segments that the peer has receive buffers for.
    pub(crate) segments: u32,
    /// Bytes that the endpoint may send in addition to those in flight.
    pub(crate) budget: Allowance<'a>,
    /// Wire bytes of a batch of full segments.
    pub(crate) batch: u64,
}

/// A number of bytes of a rail's budget. The type is small because every choice of a segment holds
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    rail: RailId,
    bytes: u32,
}

impl Need {
    /// No budget.
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

/// The rest of the endpoint's budget: the bytes left on each rail, minus those spent since.
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

/// A queue pair's share of the bytes that the endpoint may have in flight.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    pub(crate) left: Allowance<'a>,
    /// Bytes that all queue pairs have in flight on each rail.
    pub(crate) in_flight: &'a RailBytes,
    /// Whether other queue pairs wait for budget.
    pub(crate) is_shared: bool,
    /// Bytes that this queue pair has in flight on each rail.
    pub(crate) own: &'a RailBytes,
    /// The batch that the next segment may join; afterwards the one that it has joined or begun.
    pub(crate) batch: &'a mut OpenBatch,
}

impl Budget<'_> {
    /// Returns whether no other queue pair has anything in flight.
    pub(crate) fn is_alone(&self) -> bool {
        self.in_flight == self.own
    }
}

/// Reason why nothing can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// There is nothing to send.
    Nothing,
    /// The peer: its window, its buffers, the RNR pause that it requested, or its silence.
    Peer,
    /// The congestion window.
    Window,
    /// The endpoint's budget, which other queue pairs use up. This much of it would suffice.
    Budget(Need),
    /// Pacing: the segment may leave after some time, without any other event. Or missing credit.
    Rate,
    /// A request for credit leaves first.
    CreditRequest,
}

impl Block {
    /// Chooses, from the blocks of two rails, the one that will probably end first. Pacing ends by
    /// itself. Budget comes back when other queue pairs are acknowledged, the sooner the less is
    /// missing.
    pub(crate) fn or(self, other: Block, limits: &SendLimits<'_>) -> Block {
        let wait = |block: &Block| match block {
            Block::CreditRequest => (0, 0),
            Block::Rate => (1, 0),
            Block::Budget(need) => (2, need.bytes().saturating_sub(limits.budget.on(need.rail))),
            Block::Window => (3, 0),
            Block::Peer | Block::Nothing => (4, 0),
        };
        if wait(&other) < wait(&self) { other } else { self }
    }
}
