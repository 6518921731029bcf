//! Queue pairs that wait for something, in turn.

use braid_wire::Time;

use super::timers::Timers;
use crate::qp::ConnectedQp;
use crate::stream::per_rail::RailBytes;
use crate::stream::send::send_limits::Need;

/// The resources that queue pairs wait for, each of which has a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// To be asked for packets.
    ToSend = 0,
    /// For the endpoint's budget.
    ForBudget = 1,
}

/// A queue that is linked through its members, so that a look at a member needs no other memory.
///
/// Invariant: the members from the first to the last are those whose [`Place`] in this queue is
/// taken.
#[derive(Debug)]
pub(super) struct Turns {
    what: Waiting,
    /// The first and the last.
    ends: Option<(u32, u32)>,
}

/// A queue pair of an endpoint.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) qp: ConnectedQp,
    /// Its places in `ready` and `starved`.
    pub(super) turns: [Place; 2],
    /// Budget that would do, while the queue pair is in `starved`.
    pub(super) needs: Need,
    pub(super) is_dirty: bool,
    /// The next queue pair in the dirty list.
    pub(super) next_dirty: Option<u32>,
    pub(super) armed: Time,
    pub(super) paced: Time,
    /// Its share of the endpoint's `in_flight`.
    pub(super) in_flight: RailBytes,
}

/// A queue pair that is asked for packets.
pub(super) struct Turn {
    pub(super) index: u32,
    /// The queue pair may use what there is of the budget; otherwise nothing of it.
    pub(super) has_budget: bool,
    /// Others wait for budget.
    pub(super) is_shared: bool,
}

/// A member's place in one queue.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Place {
    taken: bool,
    before: Option<u32>,
    next: Option<u32>,
}

impl Turns {
    pub(super) const fn new(what: Waiting) -> Self {
        Turns { what, ends: None }
    }

    /// The queue pair whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.ends.map(|(first, _)| first)
    }

    pub(super) fn has(&self, member: &Member) -> bool {
        member.turns[self.what as usize].taken
    }

    /// Comes last, unless it is in the queue.
    #[inline]
    pub(super) fn push(&mut self, index: u32, members: &mut [Option<Member>]) {
        let last = self.ends.map(|(_, last)| last);
        let Some(turn) = self.turn(members, index).filter(|turn| !turn.taken) else { return };
        *turn = Place { taken: true, before: last, next: None };
        if let Some(last) = last.and_then(|last| self.turn(members, last)) {
            last.next = Some(index);
        }
        self.ends = Some((self.first().unwrap_or(index), index));
    }

    /// Leaves the queue, if it is in there.
    #[inline(always)]
    pub(super) fn remove(&mut self, index: u32, members: &mut [Option<Member>]) {
        let Some(turn) = self.turn(members, index).filter(|turn| turn.taken) else { return };
        let place = std::mem::take(turn);
        if self.ends == Some((index, index)) {
            self.ends = None;
        } else {
            self.close_gap(index, place, members);
        }
    }

    /// Its neighbours become each other's.
    fn close_gap(&mut self, index: u32, place: Place, members: &mut [Option<Member>]) {
        let Place { before, next, .. } = place;
        if let Some(before) = before.and_then(|before| self.turn(members, before)) {
            before.next = next;
        }
        if let Some(next) = next.and_then(|next| self.turn(members, next)) {
            next.before = before;
        }
        let Some((first, last)) = self.ends else { return };
        let first = if first == index { next } else { Some(first) };
        let last = if last == index { before } else { Some(last) };
        self.ends = first.zip(last);
    }

    /// Comes last, wherever it was.
    pub(super) fn requeue(&mut self, index: u32, members: &mut [Option<Member>]) {
        if self.ends.is_some_and(|(_, last)| last != index) {
            self.remove(index, members);
            self.push(index, members);
        }
    }

    #[inline]
    fn turn<'a>(&self, members: &'a mut [Option<Member>], index: u32) -> Option<&'a mut Place> {
        members[index as usize].as_mut().map(|member| &mut member.turns[self.what as usize])
    }
}

impl Member {
    pub(super) fn rearm_timeout(&mut self, index: u32, timers: &mut Timers) {
        let timeout = self.qp.next_timeout();
        if timeout < self.armed {
            self.armed = timeout;
            timers.push(timeout, index);
        }
    }
}
