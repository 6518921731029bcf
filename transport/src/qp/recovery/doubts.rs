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

use super::Report;
use crate::qp::segment::{Echo, Phase, Segment};

/// Most that are remembered.
const MOST: usize = 256;
/// Time-outs after which nothing is heard of a transmission any more.
const LIFETIME: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    all: VecDeque<Doubt>,
    /// Of which the paths have not heard.
    fresh: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// Both name the segment.
    source: u64,
    offset: u32,
    path: PathId,
    /// What an acknowledgement of this transmission echoes.
    stamp: u32,
    /// Since when a later one of the path is known to have arrived.
    overtaken_at: Time,
    /// When the segment was acknowledged, and what it was sent again as.
    heard: Option<(Time, PathId, u32)>,
    is_late: bool,
}

impl Doubt {
    pub(super) fn new(segment: &Segment, overtaken_at: Time) -> Self {
        let Segment { source, offset, path, sent_at, .. } = *segment;
        let stamp = sent_at.stamp();
        Doubt { source, offset, path, stamp, overtaken_at, heard: None, is_late: false }
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

impl Doubts {
    pub(super) fn push(&mut self, doubt: Doubt, report: &Report) {
        let is_old = |doubt: &Doubt| {
            report.now - doubt.overtaken_at > report.overdue.saturating_mul(LIFETIME)
        };
        while self.all.len() >= MOST || self.all.front().is_some_and(is_old) {
            self.all.pop_front();
        }
        self.all.push_back(doubt);
        self.fresh += 1;
    }

    /// The paths hear of what is new.
    pub(super) fn tell_new(&mut self, rails: &mut Rails) {
        let fresh = std::mem::take(&mut self.fresh).min(self.all.len());
        let new = self.all.range(self.all.len() - fresh..);
        new.for_each(|doubt| rails.on_overtaken(doubt.path));
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
        let Some(at) = self.all.iter().rposition(|doubt| doubt.is_of(segment)) else {
            return false;
        };
        let doubt = &mut self.all[at];
        let is_unsent = segment.phase == Phase::Lost;
        doubt.is_late = is_unsent || (doubt.echoes(echo) && !segment.is_certain(echo));
        doubt.heard = Some((now, segment.path, segment.sent_at.stamp()));
        let Doubt { path, is_late, .. } = *doubt;
        if is_late {
            rails.on_late(path, doubt.is_late_by(now));
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
        let echoed = self.all.iter().position(|doubt| {
            let again = doubt.heard.map(|(_, path, stamp)| (path, stamp));
            doubt.heard.is_some() && doubt.echoes(echo) || again == Some((echo.path, echo.stamp))
        });
        let Some(echoed) = echoed else { return false };
        let (mut left, mut is_known) = (count, false);
        for at in (0..=echoed).rev() {
            let doubt = self.all[at];
            let Some((heard_at, ..)) = doubt.heard else { continue };
            if at == echoed {
                is_known = doubt.is_late;
            } else if doubt.is_late {
                continue;
            }
            if !doubt.is_late {
                // The copy that comes second is the one that is echoed.
                let came = if doubt.echoes(echo) { now } else { heard_at };
                rails.on_late(doubt.path, doubt.is_late_by(came));
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
