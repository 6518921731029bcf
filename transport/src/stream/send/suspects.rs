//! Transmissions that were declared lost by time alone: the peer may only have paused. Their fate
//! is not reported to the path set until the retransmission is acknowledged. Nothing was lost if
//! the acknowledgement echoes a packet older than the retransmission. The same holds if the peer
//! reports duplicates until it acknowledges a packet that was sent when the first transmission was
//! overdue. Otherwise the first transmission was lost. Time alone is no proof, because the first
//! transmission may wait at a peer that pauses.
//!
//! Losses that a method guesses from the order of packets over several paths are suspects, too.

use std::time::Duration;

use braid_lb::Outcome;
use braid_wire::{PathId, Time};

use super::segment::{Echo, Phase, Segment};

/// Maximum number of suspects. A time-out retransmits few segments, but the late end of a stream
/// may be long.
const MOST: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// Message, and offset in it: they identify a segment and its retransmissions.
    source: u64,
    offset: u32,
    path: PathId,
    sent_at: Time,
    state: SuspectState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SuspectState {
    /// The segment is not acknowledged.
    Open,
    /// The segment was acknowledged with an echo not older than the retransmission.
    Missed,
    /// The segment was acknowledged with an older echo, or before it was retransmitted.
    Late,
}

impl Suspect {
    fn outcome(&self, is_lost: bool) -> Outcome {
        match is_lost {
            true => Outcome::Lost { packets: 1, sent_at: self.sent_at },
            false => Outcome::Forgotten { packets: 1 },
        }
    }
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

    /// Adds a transmission. Returns false if there are too many. Those that are known suffice as
    /// evidence, so nothing is reported of the others.
    pub(crate) fn add(&mut self, segment: &Segment) -> bool {
        let &Segment { source, offset, path, sent_at, .. } = segment;
        let has_room = self.list.len() < MOST;
        if has_room {
            self.list.push(Suspect { source, offset, path, sent_at, state: SuspectState::Open });
        }
        has_room
    }

    /// Handles the acknowledgement of a segment that was retransmitted, or was to be. `segment`
    /// describes its last transmission.
    #[cold]
    pub(crate) fn on_acked(&mut self, now: Time, segment: &Segment, echo: Echo) {
        let is_resent = segment.phase != Phase::Lost;
        // A stamp is up to 16 ns older than the packet, so an age by stamps is compared with one.
        let age = now.since_stamp(segment.sent_at.stamp()).max(now - segment.sent_at);
        let is_later = now.since_stamp(echo.stamp) <= age;
        let state = if is_resent && is_later { SuspectState::Missed } else { SuspectState::Late };
        let same = |suspect: &&mut Suspect| {
            (suspect.source, suspect.offset) == (segment.source, segment.offset)
        };
        self.list.iter_mut().filter(same).for_each(|suspect| suspect.state = state);
    }

    /// Decides about suspects at the end of an acknowledgement that reports `spurious` spurious
    /// retransmissions. `echoed_at` is the departure of the packet that it echoes. A transmission
    /// older than `overdue` by then would have arrived at the peer before that packet. `report`
    /// gets the outcome of each transmission that is decided.
    pub(crate) fn resolve(
        &mut self,
        echoed_at: Time,
        overdue: Duration,
        spurious: u32,
        mut report: impl FnMut(PathId, Outcome),
    ) {
        self.list.retain(|suspect| {
            let is_lost = match suspect.state {
                SuspectState::Open => return true,
                SuspectState::Missed if spurious > 0 => false,
                SuspectState::Missed if echoed_at - suspect.sent_at <= overdue => return true,
                SuspectState::Missed => true,
                SuspectState::Late => false,
            };
            report(suspect.path, suspect.outcome(is_lost));
            false
        });
    }

    /// Drops the suspects that were not acknowledged, because nothing is in flight.
    pub(crate) fn forget_open(&mut self, mut report: impl FnMut(PathId, Outcome)) {
        self.list.retain(|suspect| {
            let is_open = suspect.state == SuspectState::Open;
            if is_open {
                report(suspect.path, suspect.outcome(false));
            }
            !is_open
        });
    }

    /// Drops all suspects, because no acknowledgement of them will come.
    pub(crate) fn clear(&mut self, mut report: impl FnMut(PathId, Outcome)) {
        self.list.drain(..).for_each(|suspect| report(suspect.path, suspect.outcome(false)));
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.list.shrink_to(crate::idle::KEPT_ENTRIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn segment(sent_at: Time) -> Segment {
        Segment {
            source: 1,
            offset: 0,
            len: 1000,
            path: PathId::new(3),
            phase: Phase::InFlight,
            sent_at,
            again: false,
            order: 1,
            direct_path: None,
            direct_epoch: 0,
        }
    }

    fn echo(sent_at: Time) -> Echo {
        Echo { path: PathId::new(3), stamp: sent_at.stamp() }
    }

    /// Processes an acknowledgement and returns the outcomes.
    fn resolve(suspects: &mut Suspects, now: Time, echo: Echo, spurious: u32) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        suspects.resolve(echo.sent_at(now), 4 * MS, spurious, |_, outcome| outcomes.push(outcome));
        outcomes
    }

    /// Whatever part of a stamp's unit the retransmission left at, its own echo shows that the
    /// first transmission was lost.
    #[test]
    fn echo_of_the_retransmission_proves_the_loss() {
        for part in 0..16 {
            let sent_at = Time::from_nanos(1_000_000_000 + part);
            let first = segment(sent_at);
            let mut suspects = Suspects::default();
            assert!(suspects.add(&first));
            let again = Segment { sent_at: sent_at + 5 * MS, again: true, order: 2, ..first };
            let echo = echo(again.sent_at);
            let now = again.sent_at + MS / 10 + Duration::from_nanos(7);
            suspects.on_acked(now, &again, echo);
            let outcomes = resolve(&mut suspects, now, echo, 0);
            assert_eq!(outcomes, [Outcome::Lost { packets: 1, sent_at }], "part {part}");
        }
    }

    /// The retransmission was faster by another path, and both hosts paused after its
    /// acknowledgement was sent. The peer finds the first transmission when it resumes.
    #[test]
    fn acknowledgement_from_before_a_pause_proves_no_loss() {
        let sent_at = Time::from_nanos(1_000_000_000);
        let first = segment(sent_at);
        let again = Segment { sent_at: sent_at + MS / 10, again: true, order: 2, ..first };
        for spurious in [0, 1] {
            let mut suspects = Suspects::default();
            assert!(suspects.add(&first));
            let now = sent_at + 50 * MS;
            suspects.on_acked(now, &again, echo(again.sent_at));
            assert!(resolve(&mut suspects, now, echo(again.sent_at), 0).is_empty());
            let outcomes = resolve(&mut suspects, now + MS, echo(now), spurious);
            let wanted = match spurious {
                0 => Outcome::Lost { packets: 1, sent_at },
                _ => Outcome::Forgotten { packets: 1 },
            };
            assert_eq!(outcomes, [wanted]);
        }
    }
}
