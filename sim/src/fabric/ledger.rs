//! What happened to packets: nothing is lost unaccounted.

use crate::port::LinkLoad;

/// Why a packet was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Loss {
    /// The queue was full.
    NoRoom,
    /// The link was down.
    LinkDown,
    /// No route leads to its destination.
    NoRoute,
}

/// The books of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ledger {
    /// By [`Loss`].
    pub dropped: [u64; 3],
    /// What has reached the far end of a link, over all links.
    pub arrived: LinkLoad,
    /// What was on links that went down, or was sent on such.
    pub lost_on_links: LinkLoad,
    /// Payloads cut off.
    pub trimmed: u64,
    /// Times that a link was stopped.
    pub pauses: u64,
}

impl Ledger {
    /// Packets lost for whatever reason.
    pub fn losses(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
