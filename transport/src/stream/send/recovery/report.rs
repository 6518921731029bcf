//! Input of the loss detection methods.

use std::time::Duration;

use braid_wire::{Psn, Time};

use crate::stream::send::segment::Segment;

/// Number of oldest segments that a time-out resends. Their acknowledgement tells what else is
/// lost.
pub(crate) const PROBES: usize = 2;

/// Contents of an acknowledgement beside the packets that have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) now: Time,
    /// The receiver's ePSN.
    pub(crate) cumulative: Psn,
    /// The highest PSN ahead of its ePSN that it has seen, or one less than that.
    pub(crate) highest: Psn,
    /// Packets newly reported ahead of the ePSN.
    pub(crate) early: u64,
    /// Retransmissions newly found to have been unnecessary.
    pub(crate) spurious: u32,
    /// Round-trip time of the packet that it echoes.
    pub(crate) rtt: Duration,
    /// A packet much older than others that have arrived is lost, not late, if older than this.
    pub(crate) reorder_time: Duration,
    /// ... and beyond any doubt if older than this: the time-out.
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
