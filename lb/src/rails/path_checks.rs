//! Whether what leaves by a path arrives, where nothing else tells: who sends nothing but
//! acknowledgements hears of no loss.
//!
//! When the peer repeats what was acknowledged, the path of that acknowledgement is asked by PINGs,
//! and so are others, for comparison. The answer to a PING comes by the same path. A path that has
//! not answered several PINGs, each for longer than two round trips of the others, while later ones
//! were answered, is out of use. Then more paths of its rail are asked.
//!
//! A peer that is overloaded repeats as much. So few PINGs are sent at first, and ever more seldom
//! as long as they find nothing.

use std::time::Duration;

use braid_wire::{PathId, RailId, Time};

use crate::health::STAMP_UNIT;

/// Paths of a rail that are asked at a time.
pub(super) const SUSPECTS: usize = 8;
/// Paths that are asked for comparison.
pub(super) const REFERENCES: usize = 2;
/// PINGs that a path must have left unanswered to be out of use.
const UNANSWERED: usize = 3;
/// PINGs to a path in one round, at most.
const MOST_ASKED: usize = 8;
/// How long a PING has beside two round trips, and the shortest time between two.
const SLACK: Duration = Duration::from_millis(2);
/// No path is taken out of use before so many further looks, each so long after the one before,
/// have found no answer.
const LOOKS: u32 = 4;
const LOOK: Duration = Duration::from_micros(250);
/// After a round that has found nothing no other begins for so long; after each further one for
/// twice as long, up to the longest.
const REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_millis(1600);
/// The peer repeats so many things before a round begins.
const REPEATS: u32 = 4;

/// One path that is asked.
#[derive(Clone, Debug)]
struct Asked {
    path: PathId,
    is_reference: bool,
    is_answered: bool,
    /// The PINGs: when they left.
    sent: Vec<Time>,
}

impl Asked {
    fn new(path: PathId, is_reference: bool) -> Self {
        Asked { path, is_reference, is_answered: false, sent: Vec::new() }
    }
}

/// One round of questions at a time.
#[derive(Debug, Default)]
pub(super) struct PathChecks {
    asked: Vec<Asked>,
    /// Those before this one have been asked in this turn.
    next: usize,
    /// When the next PING, or the verdict, is due.
    due: Time,
    /// From one turn to the next, while no round trip is known.
    wait: Duration,
    /// The longest round trip of what was answered.
    round_trip: Option<Duration>,
    /// When the newest PING left that was answered. The peer may have paused since.
    answered: Time,
    /// Looks in a row that have found no new answer and a path to take out of use.
    looks: u32,
    /// When the last look was.
    looked_at: Time,
    /// What the peer has repeated since the last round.
    repeats: u32,
    rests_until: Time,
    /// The last rest; zero: the last round has found something.
    rest: Duration,
}

impl PathChecks {
    /// The peer repeats something. Returns whether it has done so often enough, so that a round may
    /// begin.
    pub(super) fn may_begin(&mut self, now: Time) -> bool {
        self.repeats = self.repeats.saturating_add(1);
        self.repeats >= REPEATS && self.asked.is_empty() && now >= self.rests_until
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, now: Time, suspects: &[PathId], references: &[PathId]) {
        self.asked = suspects.iter().map(|path| Asked::new(*path, false)).collect();
        (self.next, self.due, self.wait, self.round_trip) = (0, now, SLACK, None);
        (self.answered, self.looks, self.repeats) = (Time::ZERO, 0, 0);
        self.compare_with(references);
    }

    /// Ends a round of which nothing can be concluded.
    pub(super) fn forget(&mut self, now: Time) {
        if !self.asked.is_empty() {
            self.asked.clear();
            self.rests_until = now + REST;
        }
    }

    /// The path in doubt, if a turn is over in which nothing was answered: what it is compared with
    /// may be dead, too.
    pub(super) fn needs_references(&self) -> Option<PathId> {
        let begins = self.next == 0 && self.round_trip.is_none();
        self.asked.first().filter(|_| begins).map(|asked| asked.path)
    }

    pub(super) fn is_suspect(&self, path: PathId) -> bool {
        self.asked.iter().any(|asked| asked.path == path && !asked.is_reference)
    }

    /// Asks these instead of those before.
    pub(super) fn compare_with(&mut self, references: &[PathId]) {
        self.asked.retain(|asked| !asked.is_reference);
        self.asked.extend(references.iter().map(|path| Asked::new(*path, true)));
    }

    /// When [`PathChecks::poll`] or [`PathChecks::verdict`] next has something.
    pub(super) fn next_due(&self) -> Option<Time> {
        let due = if self.looks > 0 { self.looked_at + LOOK } else { self.due };
        (!self.asked.is_empty()).then_some(due)
    }

    /// Whether the driver has read all answers that have come. One that was away reads many at
    /// once, in any order.
    fn has_listened(&mut self, now: Time) -> bool {
        if self.looks == 0 || now >= self.looked_at + LOOK {
            (self.looks, self.looked_at) = (self.looks + 1, now);
        }
        self.looks > LOOKS
    }

    /// The path of the next PING, which has the stamp of `now`.
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

    /// A PONG that came by this rail echoes `stamp`. True: it answers one of these.
    pub(super) fn on_answer(&mut self, now: Time, rail: RailId, stamp: u32) -> bool {
        for asked in self.asked.iter_mut().filter(|asked| asked.path.rail() == rail) {
            let Some(&at) = asked.sent.iter().find(|at| at.stamp() == stamp) else { continue };
            asked.is_answered = true;
            self.round_trip = self.round_trip.max(Some(now - at));
            self.answered = self.answered.max(at);
            if self.looks > 0 {
                // A turn that had to wait for the looks is not overdue.
                (self.looks, self.due) = (0, self.due.max(now + LOOK));
            }
            return true;
        }
        false
    }

    /// Ends the round if it has come to something, with the paths that do not answer.
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
