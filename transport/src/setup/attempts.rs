//! The connection attempts that a responder knows.

use std::collections::{HashMap, VecDeque};

use braid_wire::{RejectReason, Time};

use super::addresses::AttemptId;
use super::cookie::CookieJar;

/// Maximum number of ended or withdrawn attempts that are remembered; beyond it, the oldest is
/// forgotten early. If its CONNECT still comes, it is a new request, and the ACCEPT that may follow
/// is declined.
pub(super) const REMEMBERED: usize = 1 << 14;

/// State of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum AttemptState<Q> {
    /// The request is in the backlog, or the application has taken it.
    Pending,
    /// Accepted by this queue pair, whose driver sends the ACCEPT.
    Accepted(Q),
    /// Rejected or ended, for this reason, at this time.
    Over(RejectReason, Time),
    /// Withdrawn at this time, because it was not repeated while it waited. The cookie that it came
    /// with is spent.
    Withdrawn(Time),
}

#[derive(Debug)]
struct Known<Q> {
    state: AttemptState<Q>,
    /// Number of times that it was withdrawn.
    spent: u32,
}

/// The attempts. `Q` identifies a queue pair for the driver.
///
/// Invariant: `ended` has each attempt that is over or withdrawn, with the time since when, in the
/// order of time. Some of its attempts may have continued since.
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

    pub(super) fn get(&self, attempt: AttemptId) -> Option<&AttemptState<Q>> {
        self.known.get(&attempt).map(|known| &known.state)
    }

    /// Number of spent cookies of this attempt, which is part of its next cookie.
    pub(super) fn spent(&self, attempt: AttemptId) -> u32 {
        self.known.get(&attempt).map_or(0, |known| known.spent)
    }

    /// Records that the request waits for the application.
    pub(super) fn wait(&mut self, attempt: AttemptId) {
        self.set(attempt, AttemptState::Pending);
    }

    pub(super) fn accept(&mut self, attempt: AttemptId, qp: Q) {
        self.set(attempt, AttemptState::Accepted(qp));
    }

    pub(super) fn end(&mut self, now: Time, attempt: AttemptId, reason: RejectReason) {
        self.set(attempt, AttemptState::Over(reason, now));
        self.remember(now, attempt);
    }

    /// Withdraws an attempt that its initiator seems to have given up. If the initiator continues,
    /// it needs another cookie.
    pub(super) fn withdraw(&mut self, now: Time, attempt: AttemptId) {
        let Some(known) = self.known.get_mut(&attempt) else { return };
        if matches!(known.state, AttemptState::Pending) {
            known.spent = known.spent.wrapping_add(1);
            known.state = AttemptState::Withdrawn(now);
            self.remember(now, attempt);
        }
    }

    /// Forgets attempts that ended so long ago that all cookies of that time have expired. Until
    /// then a late CONNECT is not a new request.
    pub(super) fn forget_old(&mut self, now: Time) {
        let is_old = |since: Time| now.saturating_since(since) > CookieJar::LONGEST;
        while self.ended.front().is_some_and(|(since, _)| is_old(*since)) {
            self.forget_oldest();
        }
    }

    fn set(&mut self, attempt: AttemptId, state: AttemptState<Q>) {
        let spent = self.spent(attempt);
        self.known.insert(attempt, Known { state, spent });
    }

    fn remember(&mut self, now: Time, attempt: AttemptId) {
        if self.ended.len() == REMEMBERED {
            self.forget_oldest();
        }
        self.ended.push_back((now, attempt));
    }

    fn forget_oldest(&mut self) {
        let Some((since, attempt)) = self.ended.pop_front() else { return };
        let state = self.get(attempt);
        let is_of_then = |at: &AttemptState<Q>| matches!(at, AttemptState::Over(_, at) | AttemptState::Withdrawn(at) if *at == since);
        if state.is_some_and(is_of_then) {
            self.known.remove(&attempt);
        }
    }
}
