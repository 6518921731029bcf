//! A round in flight as one rank sees it.

use super::notice::Begin;
use super::operation::AllToAllV;

/// Bytes of a WRITE: the amount that the transport sends on a rail before it picks another.
pub(super) const CHUNK: usize = 64 << 10;
/// The largest number of rounds in flight.
pub(super) const MAX_ROUNDS: usize = 8;

pub(super) struct RoundState {
    pub(super) number: u64,
    pub(super) operation: AllToAllV,
    /// The exchanges by rank. The one with this rank is over from the start.
    pub(super) exchanges: Vec<RankExchange>,
}

/// The exchange between this rank and another.
#[derive(Clone, Default)]
pub(super) struct RankExchange {
    /// The other rank's begin of the round.
    pub(super) begin: Option<Begin>,
    /// The bytes posted so far.
    pub(super) posted: usize,
    /// Posted chunks that have not completed.
    pub(super) open: usize,
    /// Whether everything from the other rank has arrived.
    pub(super) has_arrived: bool,
    /// Whether the exchange is over, whatever the other fields say.
    pub(super) is_over: bool,
}

impl RoundState {
    pub(super) fn new(number: u64, operation: AllToAllV, own: usize) -> Self {
        let exchanges = operation
            .receives
            .iter()
            .map(|range| RankExchange { has_arrived: range.is_empty(), ..RankExchange::default() });
        let mut exchanges: Vec<_> = exchanges.collect();
        exchanges[own].is_over = true;
        RoundState { number, operation, exchanges }
    }

    /// Bytes for a rank that are not posted yet.
    pub(super) fn unposted(&self, rank: usize) -> usize {
        self.operation.sends[rank].len() - self.exchanges[rank].posted
    }

    /// Whether a chunk for that rank can be posted.
    pub(super) fn can_send(&self, rank: usize) -> bool {
        let exchange = &self.exchanges[rank];
        exchange.begin.is_some() && !exchange.is_over && self.unposted(rank) > 0
    }

    pub(super) fn is_over_with(&self, rank: usize) -> bool {
        let RankExchange { begin, open, has_arrived, is_over, .. } = &self.exchanges[rank];
        let has_sent = begin.is_some() && *open == 0 && self.unposted(rank) == 0;
        *is_over || has_sent && *has_arrived
    }

    pub(super) fn is_over(&self) -> bool {
        self.waits_for().next().is_none()
    }

    /// The ranks whose exchange is not over.
    pub(super) fn waits_for(&self) -> impl Iterator<Item = usize> {
        (0..self.exchanges.len()).filter(|rank| !self.is_over_with(*rank))
    }
}
