//! Segments that were taken for lost because later ones of their path have arrived, until it is
//! known whether they were.
//!
//! The first transmission of such a segment may have come all the same: the acknowledgement comes
//! before it was sent again; or it echoes the first transmission (Eifel, RFC 3522); or the peer
//! says later that it has the segment twice (RFC 3708).

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::Rails;
use braid_wire::{PathId, Time};

use super::report::Report;
use crate::stream::send::segment::{Echo, Phase, Segment};

/// Most that are remembered.
const MOST: usize = 256;
/// Time-outs after which nothing is heard of a transmission any more.
const LIFETIME: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct PresumedLost {
    all: VecDeque<Presumption>,
    /// The number of the newest of them that the paths have not heard of.
    fresh: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presumption {
    /// Both name the segment.
    source: u64,
    offset: u32,
    path: PathId,
    /// The stamp that an acknowledgement of this transmission echoes.
    stamp: u32,
    /// Since when a later one of the path is known to have arrived.
    overtaken_at: Time,
    /// When the segment was acknowledged, and what it was sent again as.
    heard: Option<(Time, PathId, u32)>,
    is_late: bool,
}

impl Presumption {
    pub(super) fn new(segment: &Segment, overtaken_at: Time) -> Self {
        let Segment { source, offset, path, sent_at, .. } = *segment;
        let stamp = sent_at.stamp();
        Presumption { source, offset, path, stamp, overtaken_at, heard: None, is_late: false }
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

    /// The paths hear of what is new.
    pub(super) fn report_new(&mut self, rails: &mut Rails) {
        let fresh = std::mem::take(&mut self.fresh).min(self.all.len());
        let new = self.all.range(self.all.len() - fresh..);
        new.for_each(|presumption| rails.on_overtaken(presumption.path));
    }

    /// A segment is acknowledged that was sent again, or was to be. Returns whether that proves its
    /// first transmission late.
    pub(super) fn on_heard(
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
        presumption.heard = Some((now, segment.path, segment.sent_at.stamp()));
        let Presumption { path, is_late, .. } = *presumption;
        if is_late {
            rails.on_late(path, presumption.is_late_by(now));
        }
        if is_unsent && !segment.again {
            self.all.remove(at); // it will not come twice
        }
        is_late
    }

    /// The peer has `count` more segments twice, and echoes one of them. The others came with it,
    /// so they are those that were taken for lost with it. Returns whether the one that it echoes
    /// was known to be late.
    pub(super) fn on_duplicates(
        &mut self,
        now: Time,
        echo: Echo,
        count: u32,
        rails: &mut Rails,
    ) -> bool {
        let echoed = self.all.iter().position(|presumption| {
            let again = presumption.heard.map(|(_, path, stamp)| (path, stamp));
            presumption.heard.is_some() && presumption.echoes(echo)
                || again == Some((echo.path, echo.stamp))
        });
        let Some(echoed) = echoed else { return false };
        let (mut left, mut is_known) = (count, false);
        for at in (0..=echoed).rev() {
            let presumption = self.all[at];
            let Some((heard_at, ..)) = presumption.heard else { continue };
            if at == echoed {
                is_known = presumption.is_late;
            } else if presumption.is_late {
                continue;
            }
            if !presumption.is_late {
                // The copy that comes second is the one that is echoed.
                let came = if presumption.echoes(echo) { now } else { heard_at };
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
