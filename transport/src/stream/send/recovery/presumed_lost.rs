//! Segments that are presumed lost because later ones of their path have arrived, until it is known
//! whether they were.
//!
//! The first transmission of such a segment may have arrived late. This is so if the segment is
//! acknowledged before its retransmission. It is also so if the acknowledgement echoes the first
//! transmission (Eifel, RFC 3522), or if the peer later reports a duplicate (RFC 3708).

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::Rails;
use braid_wire::{PathId, Time};

use super::report::Report;
use crate::stream::send::segment::{Echo, Phase, Segment};

/// Maximum number of presumptions.
const MOST: usize = 256;
/// Age in time-outs at which a presumption is dropped.
const LIFETIME: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct PresumedLost {
    all: VecDeque<Presumption>,
    /// Number of the newest presumptions that were not yet reported to the path set.
    fresh: usize,
}

/// A segment that is presumed lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presumption {
    /// Message, and offset in it: they identify the segment.
    source: u64,
    offset: u32,
    path: PathId,
    /// The stamp that an acknowledgement of this transmission echoes.
    stamp: u32,
    /// Time since which a later segment of the path is known to have arrived.
    overtaken_at: Time,
    /// Time at which the segment was acknowledged, and path and stamp of its last transmission.
    acked: Option<(Time, PathId, u32)>,
    is_late: bool,
}

impl Presumption {
    pub(super) fn new(segment: &Segment, overtaken_at: Time) -> Self {
        let Segment { source, offset, path, sent_at, .. } = *segment;
        let stamp = sent_at.stamp();
        Presumption { source, offset, path, stamp, overtaken_at, acked: None, is_late: false }
    }

    fn is_of(&self, segment: &Segment) -> bool {
        (self.source, self.offset) == (segment.source, segment.offset)
    }

    fn echoes(&self, echo: Echo) -> bool {
        (self.path, self.stamp) == (echo.path, echo.stamp)
    }

    fn is_late_by(&self, until: Time) -> Duration {
        until - self.overtaken_at
    }
}

impl PresumedLost {
    pub(super) fn push(&mut self, presumption: Presumption, report: &Report) {
        let is_old = |presumption: &Presumption| {
            report.now - presumption.overtaken_at > report.overdue.saturating_mul(LIFETIME)
        };
        while self.all.len() >= MOST || self.all.front().is_some_and(is_old) {
            self.all.pop_front();
        }
        self.all.push_back(presumption);
        self.fresh += 1;
    }

    /// Reports new presumptions to the path set.
    pub(super) fn report_new(&mut self, rails: &mut Rails) {
        let fresh = std::mem::take(&mut self.fresh).min(self.all.len());
        let new = self.all.range(self.all.len() - fresh..);
        new.for_each(|presumption| rails.on_overtaken(presumption.path));
    }

    /// Handles the acknowledgement of a segment that was retransmitted, or was to be. Returns
    /// whether it proves that the first transmission was late.
    pub(super) fn on_acked(
        &mut self,
        now: Time,
        segment: &Segment,
        echo: Echo,
        rails: &mut Rails,
    ) -> bool {
        let Some(at) = self.all.iter().rposition(|presumption| presumption.is_of(segment)) else {
            return false;
        };
        let presumption = &mut self.all[at];
        let is_unsent = segment.phase == Phase::Lost;
        presumption.is_late = is_unsent || (presumption.echoes(echo) && !segment.is_certain(echo));
        presumption.acked = Some((now, segment.path, segment.sent_at.stamp()));
        let Presumption { path, is_late, .. } = *presumption;
        if is_late {
            rails.on_late(path, presumption.is_late_by(now));
        }
        if is_unsent && !segment.again {
            self.all.remove(at); // there will be no duplicate
        }
        is_late
    }

    /// Handles `count` new duplicates at the peer, one of which is echoed. The others arrived with
    /// it, so they are segments presumed lost at the same time. Returns whether the echoed segment
    /// was already known to be late.
    pub(super) fn on_duplicates(
        &mut self,
        now: Time,
        echo: Echo,
        count: u32,
        rails: &mut Rails,
    ) -> bool {
        let echoed = self.all.iter().position(|presumption| {
            let again = presumption.acked.map(|(_, path, stamp)| (path, stamp));
            presumption.acked.is_some() && presumption.echoes(echo)
                || again == Some((echo.path, echo.stamp))
        });
        let Some(echoed) = echoed else { return false };
        let (mut left, mut is_known) = (count, false);
        for at in (0..=echoed).rev() {
            let presumption = self.all[at];
            let Some((acked_at, ..)) = presumption.acked else { continue };
            if at == echoed {
                is_known = presumption.is_late;
            } else if presumption.is_late {
                continue;
            }
            if !presumption.is_late {
                // The copy that arrives second is the one that is echoed.
                let came = if presumption.echoes(echo) { now } else { acked_at };
                rails.on_late(presumption.path, presumption.is_late_by(came));
            }
            self.all.remove(at);
            left -= 1;
            if left == 0 {
                break;
            }
        }
        is_known
    }
}
