//! The ledger of a fabric: every lost packet is accounted for.

use crate::port::LinkLoad;

/// The reason for a packet's loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Loss {
    /// The queue was full.
    NoRoom,
    /// The link was down.
    LinkDown,
    /// No route leads to its destination.
    NoRoute,
    /// The link loses packets at random.
    LossyLink,
}

/// Counts of lost, trimmed and paused packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ledger {
    /// Number of lost packets by [`Loss`].
    pub dropped: [u64; 4],
    /// Packets and bytes that have reached the far end of a link, over all links.
    pub arrived: LinkLoad,
    /// Packets and bytes that were lost on links that are down or lossy.
    pub lost_on_links: LinkLoad,
    /// Number of trimmed packets.
    pub trimmed: u64,
    /// Number of times that a link was paused.
    pub pauses: u64,
}

impl Ledger {
    /// Returns the number of lost packets, for all reasons.
    pub fn losses(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
