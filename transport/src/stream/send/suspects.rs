//! Transmissions that time alone has declared lost, of which nobody knows whether they were: the
//! peer may only have paused. Their paths hear nothing before what was sent again is acknowledged.
//! If the acknowledgement is older than the retransmission, or the peer reports duplicates while
//! the first transmission may still be on its way, nothing was lost. Otherwise it was.
//!
//! The same holds for methods that guess from the order of packets over several paths.

use std::time::Duration;

use braid_lb::Outcome;
use braid_wire::{PathId, Time};

use super::segment::{Echo, Phase, Segment};

/// More transmissions than this are not remembered: a time-out sends few segments again, but the
/// end of a stream that is late may be long.
const MOST: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// The message and the offset there: what a segment and its retransmissions have in common.
    source: u64,
    offset: u32,
    path: PathId,
    sent_at: Time,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing was heard of the segment.
    Open,
    /// An acknowledgement of the retransmission has come.
    Missed,
    /// An acknowledgement that left before has come.
    Late,
}

/// The suspects of one outgoing stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects {
    list: Vec<Suspect>,
}

impl Suspects {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Remembers a transmission. False: there are too many.
    pub(crate) fn add(&mut self, segment: &Segment) -> bool {
        let &Segment { source, offset, path, sent_at, .. } = segment;
        let has_room = self.list.len() < MOST;
        if has_room {
            self.list.push(Suspect { source, offset, path, sent_at, state: State::Open });
        }
        has_room
    }

    /// A segment is acknowledged that was sent again, or was to be, and last left as `segment`
    /// says.
    #[cold]
    pub(crate) fn on_acked(&mut self, now: Time, segment: &Segment, echo: Echo) {
        let is_resent = segment.phase != Phase::Lost;
        let is_later = now.since_stamp(echo.stamp) <= now - segment.sent_at;
        let state = if is_resent && is_later { State::Missed } else { State::Late };
        let same = |suspect: &&mut Suspect| {
            (suspect.source, suspect.offset) == (segment.source, segment.offset)
        };
        self.list.iter_mut().filter(same).for_each(|suspect| suspect.state = state);
    }

    /// The acknowledgement ends, in which so many retransmissions have turned out to have been
    /// unnecessary: `report` hears what became of the transmissions that it has decided about. What
    /// left longer ago than `overdue` does not come any more.
    pub(crate) fn resolve(
        &mut self,
        now: Time,
        overdue: Duration,
        spurious: u32,
        mut report: impl FnMut(PathId, Outcome),
    ) {
        self.list.retain(|suspect| {
            let is_lost = match suspect.state {
                State::Open => return true,
                State::Missed if spurious > 0 => false,
                State::Missed if now - suspect.sent_at <= overdue => return true,
                State::Missed => true,
                State::Late => false,
            };
            report(suspect.path, outcome(is_lost));
            false
        });
    }

    /// Nothing is in flight: nothing will be heard of those of which nothing was.
    pub(crate) fn forget_open(&mut self, mut report: impl FnMut(PathId, Outcome)) {
        self.list.retain(|suspect| {
            let is_open = suspect.state == State::Open;
            if is_open {
                report(suspect.path, outcome(false));
            }
            !is_open
        });
    }

    /// Nothing will be heard of them any more.
    pub(crate) fn clear(&mut self, mut report: impl FnMut(PathId, Outcome)) {
        self.list.drain(..).for_each(|suspect| report(suspect.path, outcome(false)));
    }

    /// Gives back room that is not needed.
    pub(crate) fn trim(&mut self) {
        self.list.shrink_to(crate::idle::KEPT_ENTRIES);
    }
}

fn outcome(is_lost: bool) -> Outcome {
    match is_lost {
        true => Outcome::Lost { packets: 1 },
        false => Outcome::Forgotten { packets: 1 },
    }
}
