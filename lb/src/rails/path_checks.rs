//! Tests of paths by PINGs, for a sender of acknowledgements only, which receives no feedback on
//! losses.
//!
//! If the peer repeats packets that were acknowledged, the path of that acknowledgement is tested
//! by PINGs in turns, together with reference paths. A PONG returns on the path of its PING. A PING
//! is late after two round trips of the references, if another PING of its turn was answered. A
//! path goes down if its PINGs of several turns are late. Then more paths of its rail are tested. A
//! turn without any answer is no evidence, because the peer may have paused: it keeps only some of
//! the PINGs that arrived meanwhile.
//!
//! An overloaded peer repeats packets as well. So the first tests send few PINGs, and tests become
//! rarer as long as they find nothing.

use std::time::Duration;

use braid_wire::{PathId, RailId, Time};

use crate::health::STAMP_UNIT;

/// Number of paths of a rail that are tested at a time.
pub(super) const SUSPECTS: usize = 8;
/// Number of reference paths.
pub(super) const REFERENCES: usize = 2;
/// Number of turns with unanswered PINGs after which a path goes down.
const UNANSWERED: usize = 3;
/// Maximum number of turns in one test.
const MOST_TURNS: u32 = 8;
/// Time for a reply in addition to two round trips, and the minimum interval of PINGs.
const SLACK: Duration = Duration::from_millis(2);
/// Number and interval of further checks for replies before a path goes down.
const LOOKS: u32 = 4;
const LOOK: Duration = Duration::from_micros(250);
/// Pause after a test without a result, which doubles with each such test up to the maximum.
const REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_millis(1600);
/// Repetitions of the peer before a test starts.
const REPEATS: u32 = 4;

/// One tested path.
#[derive(Clone, Debug)]
struct Asked {
    path: PathId,
    is_reference: bool,
    is_answered: bool,
    sent: Vec<Sent>,
}

/// One PING.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    turn: u32,
}

impl Asked {
    fn new(path: PathId, is_reference: bool) -> Self {
        Asked { path, is_reference, is_answered: false, sent: Vec::new() }
    }
}

/// The state of the current test.
#[derive(Debug, Default)]
pub(super) struct PathChecks {
    asked: Vec<Asked>,
    /// Number of complete turns.
    turn: u32,
    /// Index of the next path in this turn.
    next: usize,
    /// Time of the next PING or of the verdict.
    due: Time,
    /// Interval between turns while no round trip is known.
    wait: Duration,
    /// The longest round trip of an answered PING.
    round_trip: Option<Duration>,
    /// The turns of answered PINGs, a bit each.
    answered: u32,
    /// Consecutive checks that found no new reply but a path to take down.
    looks: u32,
    /// Time of the last check.
    looked_at: Time,
    /// Repetitions of the peer since the last test.
    repeats: u32,
    rests_until: Time,
    /// The last pause, or zero if the last test found a dead path.
    rest: Duration,
}

impl PathChecks {
    /// Records a repetition of the peer. Returns whether a test may start.
    pub(super) fn may_begin(&mut self, now: Time) -> bool {
        self.repeats = self.repeats.saturating_add(1);
        self.repeats >= REPEATS && self.asked.is_empty() && now >= self.rests_until
    }

    /// Starts a test.
    pub(super) fn begin(&mut self, now: Time, suspects: &[PathId], references: &[PathId]) {
        self.asked = suspects.iter().map(|path| Asked::new(*path, false)).collect();
        (self.turn, self.next, self.due) = (0, 0, now);
        (self.wait, self.round_trip, self.answered) = (SLACK, None, 0);
        (self.looks, self.repeats) = (0, 0);
        self.compare_with(references);
    }

    /// Ends a test without a result.
    pub(super) fn forget(&mut self, now: Time) {
        if !self.asked.is_empty() {
            self.asked.clear();
            self.rests_until = now + REST;
        }
    }

    /// Returns the suspected path if no PING of a turn was answered, because the references may be
    /// dead, too.
    pub(super) fn needs_references(&self) -> Option<PathId> {
        let begins = self.next == 0 && self.round_trip.is_none();
        self.asked.first().filter(|_| begins).map(|asked| asked.path)
    }

    pub(super) fn is_suspect(&self, path: PathId) -> bool {
        self.asked.iter().any(|asked| asked.path == path && !asked.is_reference)
    }

    /// Replaces the reference paths.
    pub(super) fn compare_with(&mut self, references: &[PathId]) {
        self.asked.retain(|asked| !asked.is_reference);
        self.asked.extend(references.iter().map(|path| Asked::new(*path, true)));
    }

    /// Returns the time at which [`PathChecks::poll`] or [`PathChecks::verdict`] next has a result.
    pub(super) fn next_due(&self) -> Option<Time> {
        let due = if self.looks > 0 { self.looked_at + LOOK } else { self.due };
        (!self.asked.is_empty()).then_some(due)
    }

    /// Returns whether the driver has read all replies that have arrived. After a pause, it reads
    /// many at once in any order.
    fn has_listened(&mut self, now: Time) -> bool {
        if self.looks == 0 || now >= self.looked_at + LOOK {
            (self.looks, self.looked_at) = (self.looks + 1, now);
        }
        self.looks > LOOKS
    }

    /// Returns the path of the next PING, which carries the stamp of `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<PathId> {
        if self.asked.is_empty() || now < self.due || self.looks > 0 {
            return None;
        }
        let waits = |asked: &Asked| asked.is_reference || !asked.is_answered;
        let index = (self.next..self.asked.len()).find(|index| waits(&self.asked[*index]))?;
        self.asked[index].sent.push(Sent { at: now, turn: self.turn });
        self.next = index + 1;
        self.due = now + STAMP_UNIT;
        if !self.asked[self.next..].iter().any(waits) {
            (self.turn, self.next) = (self.turn + 1, 0);
            self.due = now + self.round_trip.map_or(self.wait, |round_trip| round_trip + SLACK);
            self.wait *= 2;
        }
        Some(self.asked[index].path)
    }

    /// Processes a PONG on this rail that echoes `stamp`. Returns whether it answers a PING of this
    /// test.
    pub(super) fn on_answer(&mut self, now: Time, rail: RailId, stamp: u32) -> bool {
        for asked in self.asked.iter_mut().filter(|asked| asked.path.rail() == rail) {
            let mut sent = asked.sent.iter();
            let Some(sent) = sent.find(|sent| sent.at.stamp() == stamp) else { continue };
            asked.is_answered = true;
            self.round_trip = self.round_trip.max(Some(now - sent.at));
            self.answered |= 1 << sent.turn;
            if self.looks > 0 {
                // A turn that waited for the checks is not overdue.
                (self.looks, self.due) = (0, self.due.max(now + LOOK));
            }
            return true;
        }
        false
    }

    /// Ends the test if it has a result. Returns the paths that did not respond.
    pub(super) fn verdict(&mut self, now: Time) -> Option<Vec<PathId>> {
        if self.asked.is_empty() || self.next > 0 {
            return None;
        }
        let limit = self.round_trip.map(|round_trip| 2 * round_trip + SLACK);
        let is_dead = |asked: &Asked| {
            let is_late = |at: Time| limit.is_some_and(|limit| now - at >= limit);
            let overdue = |sent: &&Sent| self.answered & 1 << sent.turn != 0 && is_late(sent.at);
            !asked.is_answered && asked.sent.iter().filter(overdue).count() >= UNANSWERED
        };
        let mut suspects = self.asked.iter().filter(|asked| !asked.is_reference);
        let is_over = suspects.all(|asked| asked.is_answered || is_dead(asked));
        if !is_over && self.turn < MOST_TURNS {
            return None;
        }
        let dead = self.asked.iter().filter(|asked| !asked.is_reference && is_dead(asked));
        let dead: Vec<PathId> = dead.map(|asked| asked.path).collect();
        if !dead.is_empty() && !self.has_listened(now) {
            return None;
        }
        self.asked.clear();
        self.rest = match dead.is_empty() {
            true => (2 * self.rest).clamp(REST, LONGEST_REST),
            false => Duration::ZERO,
        };
        self.rests_until = now + self.rest;
        Some(dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUSPECT: PathId = PathId::new(5);
    const ROUND_TRIP: Duration = Duration::from_micros(100);

    /// A test of [`SUSPECT`] beside two references, in virtual time.
    struct Test {
        checks: PathChecks,
        now: Time,
        /// PINGs to the references.
        pings: Vec<Time>,
    }

    impl Test {
        fn new() -> Self {
            let (mut checks, now) = (PathChecks::default(), Time::ZERO + REST);
            checks.begin(now, &[SUSPECT], &[PathId::new(1), PathId::new(2)]);
            Test { checks, now, pings: Vec::new() }
        }

        /// Continues the test when it is next due. Returns its verdict.
        fn step(&mut self) -> Option<Vec<PathId>> {
            self.now = self.now.max(self.checks.next_due()?);
            let verdict = self.checks.verdict(self.now);
            while let Some(path) = self.checks.poll(self.now) {
                self.pings.extend((path != SUSPECT).then_some(self.now));
                self.now += STAMP_UNIT;
            }
            verdict
        }

        /// Receives the answers to the newest `most` PINGs to the references.
        fn receive(&mut self, most: usize) {
            let pings = std::mem::take(&mut self.pings);
            for sent in pings.into_iter().rev().take(most) {
                self.now = self.now.max(sent + ROUND_TRIP);
                assert!(self.checks.on_answer(self.now, SUSPECT.rail(), sent.stamp()));
            }
        }

        /// Returns the verdict of a test in which the peer answers every turn from now on.
        fn verdict(&mut self) -> Vec<PathId> {
            let verdicts = std::iter::repeat_with(|| {
                let verdict = self.step();
                self.receive(usize::MAX);
                verdict
            });
            verdicts.take(50).flatten().next().expect("the test ends")
        }
    }

    #[test]
    fn path_without_answers_in_three_turns_goes_down() {
        let mut test = Test::new();
        assert_eq!(test.verdict(), [SUSPECT]);
        // The last PING is late only after the next turn.
        assert_eq!(test.checks.turn as usize, UNANSWERED + 1);
    }

    #[test]
    fn turns_that_a_pausing_peer_did_not_answer_are_no_evidence() {
        for paused in 1..=MOST_TURNS {
            let mut test = Test::new();
            for _ in 0..paused {
                assert_eq!(test.step(), None);
            }
            // The peer has kept the newest PING only.
            test.receive(1);
            let took_down = !test.verdict().is_empty();
            let answered = 1 + MOST_TURNS - paused;
            assert_eq!(took_down, answered as usize > UNANSWERED, "{paused} turns");
        }
    }
}
