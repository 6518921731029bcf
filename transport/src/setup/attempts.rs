//! The attempts that a responder knows of.

use std::collections::{HashMap, VecDeque};

use braid_wire::{RejectReason, Time};

use super::addresses::AttemptId;
use super::cookie::CookieJar;

/// Attempts that are over or withdrawn and remembered. Beyond that the oldest is forgotten earlier:
/// its CONNECT, if it still comes, is a new request then, and the ACCEPT that may follow is
/// declined.
pub(super) const REMEMBERED: usize = 1 << 14;

/// State of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer<Q> {
    /// The application has it, or will have it.
    Pending,
    /// By this queue pair, whose driver sends the ACCEPT.
    Accepted(Q),
    /// No, or not any more, since then.
    Over(RejectReason, Time),
    /// Withdrawn, because it was not repeated while it waited: the cookie that it came with is
    /// spent.
    Withdrawn(Time),
}

#[derive(Debug)]
struct Known<Q> {
    answer: Answer<Q>,
    /// Number of times that it was withdrawn.
    spent: u32,
}

/// `Q` names a queue pair for the driver.
///
/// Invariant: `ended` has each attempt that is over or withdrawn, with the time since when, in the
/// order of time; some of them have gone on since.
#[derive(Debug)]
pub(super) struct Attempts<Q> {
    known: HashMap<AttemptId, Known<Q>>,
    ended: VecDeque<(Time, AttemptId)>,
}

impl<Q> Default for Attempts<Q> {
    fn default() -> Self {
        Attempts { known: HashMap::new(), ended: VecDeque::new() }
    }
}

impl<Q> Attempts<Q> {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn get(&self, attempt: AttemptId) -> Option<&Answer<Q>> {
        self.known.get(&attempt).map(|known| &known.answer)
    }

    /// Number of spent cookies of this attempt. The next is made with this number.
    pub(super) fn spent(&self, attempt: AttemptId) -> u32 {
        self.known.get(&attempt).map_or(0, |known| known.spent)
    }

    /// The application has it, or will have it.
    pub(super) fn wait(&mut self, attempt: AttemptId) {
        self.set(attempt, Answer::Pending);
    }

    pub(super) fn accept(&mut self, attempt: AttemptId, qp: Q) {
        self.set(attempt, Answer::Accepted(qp));
    }

    pub(super) fn end(&mut self, now: Time, attempt: AttemptId, reason: RejectReason) {
        self.set(attempt, Answer::Over(reason, now));
        self.remember(now, attempt);
    }

    /// Its initiator has given it up, or is cut off: if it goes on, it asks for another cookie.
    pub(super) fn withdraw(&mut self, now: Time, attempt: AttemptId) {
        let Some(known) = self.known.get_mut(&attempt) else { return };
        if matches!(known.answer, Answer::Pending) {
            known.spent = known.spent.wrapping_add(1);
            known.answer = Answer::Withdrawn(now);
            self.remember(now, attempt);
        }
    }

    /// Forgets attempts that ended so long ago that no cookie of that time is good any more. Until
    /// then a CONNECT that comes late is not a new request.
    pub(super) fn forget_old(&mut self, now: Time) {
        let is_old = |since: Time| now.saturating_since(since) > CookieJar::LONGEST;
        while self.ended.front().is_some_and(|(since, _)| is_old(*since)) {
            self.forget_oldest();
        }
    }

    fn set(&mut self, attempt: AttemptId, answer: Answer<Q>) {
        let spent = self.spent(attempt);
        self.known.insert(attempt, Known { answer, spent });
    }

    fn remember(&mut self, now: Time, attempt: AttemptId) {
        if self.ended.len() == REMEMBERED {
            self.forget_oldest();
        }
        self.ended.push_back((now, attempt));
    }

    fn forget_oldest(&mut self) {
        let Some((since, attempt)) = self.ended.pop_front() else { return };
        let answer = self.get(attempt);
        let is_of_then = |at: &Answer<Q>| matches!(at, Answer::Over(_, at) | Answer::Withdrawn(at) if *at == since);
        if answer.is_some_and(is_of_then) {
            self.known.remove(&attempt);
        }
    }
}
