//! A subflow: the round-trip time, congestion control and path quantum of a stream on one rail
//! (compare a subflow of MPTCP, RFC 8684, and a path of multipath QUIC).

use braid_cc::{Loss, Spurious};
use braid_wire::{RailId, Time};

use super::congestion::Congestion;
use super::quantum::Quantum;
use super::rtt::Rtt;
use super::segment::Segment;
use super::send_limits::{Block, Need, SendLimits};
use super::shortest::Shortest;
use crate::stream::marks::MarkWatch;
use crate::{QpConfig, Remote};

/// Minimum size of a batch in bytes: a quarter of the bytes in flight, or a `whole` batch if that
/// is less. Smaller batches wait, because an acknowledgement that makes more room comes soon.
/// Otherwise each acknowledgement of a single segment would let a single segment leave, which is
/// acknowledged alone again. (Linux' TCP defers a send likewise, `tcp_tso_should_defer`.)
pub(crate) fn least_batch(in_flight: u64, whole: u64) -> u64 {
    const PART: u64 = 4;
    (in_flight / PART).min(whole)
}

#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) rtt: Rtt,
    pub(crate) cc: Congestion,
    pub(crate) quantum: Quantum,
    pub(crate) marks: MarkWatch,
    /// Shortest round trip of the paths that reorder.
    pub(super) shortest: Shortest,
    /// Losses on this rail that were not yet reported to the controller.
    lost: Option<Lost>,
    /// [`braid_lb::Devices::refusals`] at the last acknowledgement.
    refusals: u32,
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    packets: u64,
    bytes: u64,
    /// Departure of the latest of them.
    sent_at: Time,
}

/// A segment that is considered for transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) now: Time,
    /// Bytes on the wire.
    pub(crate) bytes: u64,
    /// Whether it would be the segment's first transmission.
    pub(crate) is_fresh: bool,
}

impl Subflow {
    pub(crate) fn new(config: &QpConfig, remote: &Remote) -> Self {
        let shortest = config.min_rto.max(remote.min_rto);
        // If `retry_timeout` is shorter than that, the first time-out is the last.
        let longest = config.max_rto.min(config.retry_timeout).max(shortest);
        Subflow {
            rtt: Rtt::new(shortest, longest),
            cc: Congestion::new(config, remote),
            quantum: Quantum::default(),
            marks: MarkWatch::default(),
            shortest: Shortest::default(),
            lost: None,
            refusals: 0,
        }
    }

    /// Returns the number of congestion marks for refusals by the rail's device: one if there were
    /// any since the last call. `refusals`: their number so far.
    #[inline]
    pub(crate) fn device_marks(&mut self, refusals: u32) -> u32 {
        u32::from(std::mem::replace(&mut self.refusals, refusals) != refusals)
    }

    /// Whether a segment may leave on this rail, which has `in_flight` bytes in flight. Returns the
    /// budget that the segment takes.
    #[inline]
    pub(crate) fn takes(
        &self,
        rail: RailId,
        candidate: Candidate,
        in_flight: u64,
        limits: &SendLimits<'_>,
    ) -> Result<Need, Block> {
        let Candidate { now, bytes, is_fresh } = candidate;
        let begins = is_fresh && self.quantum.begins_batch();
        let bytes = if begins { bytes.max(least_batch(in_flight, limits.batch)) } else { bytes };
        if !self.cc.has_room(in_flight, bytes) {
            return Err(Block::Window);
        }
        let need = Need::new(rail, bytes);
        if limits.budget.on(rail) < bytes {
            return Err(Block::Budget(need));
        }
        self.cc.check(now).map(|()| need)
    }

    /// Counts a segment that was declared lost, for [`Subflow::report_lost`]. `is_in_use`: whether
    /// the path set still uses its path. Losses of a path that is out of use are no sign of
    /// congestion on the others.
    pub(crate) fn on_lost(&mut self, segment: &Segment, is_in_use: bool) {
        self.quantum.end(); // its path may be dead
        if !is_in_use {
            return;
        }
        let none = Lost { packets: 0, bytes: 0, sent_at: segment.sent_at };
        let lost = self.lost.get_or_insert(none);
        lost.packets += 1;
        lost.bytes += Segment::wire_len(segment.len);
        lost.sent_at = lost.sent_at.max(segment.sent_at);
    }

    /// Reports spurious retransmissions to the controller. They also cancel as many losses that
    /// were not yet reported: those of a time-out wait for the next report.
    pub(crate) fn report_spurious(&mut self, spurious: &Spurious) {
        if let Some(lost) = &mut self.lost {
            lost.packets = lost.packets.saturating_sub(spurious.packets);
            self.lost = self.lost.filter(|lost| lost.packets > 0);
        }
        self.cc.on_spurious(spurious);
    }

    /// Reports losses to the controller, if there are any.
    pub(crate) fn report_lost(&mut self, now: Time) {
        if let Some(loss) = self.take_lost(now) {
            self.cc.on_loss(&loss);
        }
    }

    /// Reports losses of which the network informs to the controller, and with them those that
    /// still wait for a report.
    pub(crate) fn report_trimmed(&mut self, now: Time) {
        if let Some(loss) = self.take_lost(now) {
            self.cc.on_trimmed(&loss);
        }
    }

    fn take_lost(&mut self, now: Time) -> Option<Loss> {
        let Lost { packets, bytes, sent_at } = self.lost.take()?;
        Some(Loss { now, packets, bytes, sent_at })
    }
}
