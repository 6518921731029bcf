//! Tests of paths by PINGs, for a sender of acknowledgements only, which receives no feedback on
//! losses.
//!
//! If the peer repeats packets that were acknowledged, the path of that acknowledgement is tested
//! by PINGs, together with reference paths. A PONG returns on the path of its PING. A path goes
//! down if it does not answer several PINGs, each for longer than two round trips of the
//! references, while later PINGs were answered. Then more paths of its rail are tested.
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
/// Unanswered PINGs after which a path goes down.
const UNANSWERED: usize = 3;
/// Maximum number of PINGs per path in one test.
const MOST_ASKED: usize = 8;
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
    /// Times of the PINGs.
    sent: Vec<Time>,
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
    /// Index of the next path in this turn.
    next: usize,
    /// Time of the next PING or of the verdict.
    due: Time,
    /// Interval between turns while no round trip is known.
    wait: Duration,
    /// The longest round trip of an answered PING.
    round_trip: Option<Duration>,
    /// Time of the newest answered PING. The peer may have paused since then.
    answered: Time,
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
        (self.next, self.due, self.wait, self.round_trip) = (0, now, SLACK, None);
        (self.answered, self.looks, self.repeats) = (Time::ZERO, 0, 0);
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
        self.asked[index].sent.push(now);
        self.next = index + 1;
        self.due = now + STAMP_UNIT;
        if !self.asked[self.next..].iter().any(waits) {
            self.next = 0;
            self.due = now + self.round_trip.map_or(self.wait, |round_trip| round_trip + SLACK);
            self.wait *= 2;
        }
        Some(self.asked[index].path)
    }

    /// Processes a PONG on this rail that echoes `stamp`. Returns whether it answers a PING of this
    /// test.
    pub(super) fn on_answer(&mut self, now: Time, rail: RailId, stamp: u32) -> bool {
        for asked in self.asked.iter_mut().filter(|asked| asked.path.rail() == rail) {
            let Some(&at) = asked.sent.iter().find(|at| at.stamp() == stamp) else { continue };
            asked.is_answered = true;
            self.round_trip = self.round_trip.max(Some(now - at));
            self.answered = self.answered.max(at);
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
            let overdue = |at: &&Time| **at < self.answered && is_late(**at);
            !asked.is_answered && asked.sent.iter().filter(overdue).count() >= UNANSWERED
        };
        let mut suspects = self.asked.iter().filter(|asked| !asked.is_reference);
        let is_over = suspects.all(|asked| asked.is_answered || is_dead(asked));
        let is_vain = self.asked.iter().any(|asked| asked.sent.len() >= MOST_ASKED);
        if !is_over && !is_vain {
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
