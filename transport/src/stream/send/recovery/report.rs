//! Input of the loss detection methods.

use std::time::Duration;

use braid_wire::{Psn, Time};

use crate::stream::send::segment::Segment;

/// Number of oldest segments that a time-out retransmits. Their acknowledgement shows which others
/// are lost.
pub(crate) const PROBES: usize = 2;

/// Contents of an acknowledgement, besides the packets that have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) now: Time,
    /// The receiver's ePSN.
    pub(crate) cumulative: Psn,
    /// The highest PSN that the receiver has seen ahead of its ePSN, or the ePSN minus one.
    pub(crate) highest: Psn,
    /// Number of packets newly reported ahead of the ePSN.
    pub(crate) early: u64,
    /// Retransmissions newly known to be spurious.
    pub(crate) spurious: u32,
    /// Round-trip time of the echoed packet.
    pub(crate) rtt: Duration,
    /// An overtaken packet older than this is lost, not late.
    pub(crate) reorder_time: Duration,
    /// Age at which an overtaken packet is lost beyond doubt, see `Rtt::overdue`.
    pub(crate) overdue: Duration,
}

impl Report {
    pub(super) fn has_hole(&self) -> bool {
        self.highest > self.cumulative
    }

    pub(super) fn is_overdue(&self, segment: &Segment) -> bool {
        self.now - segment.sent_at > self.overdue
    }
}
