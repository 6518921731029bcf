//! Queues of queue pairs that wait for their turn.

use braid_wire::Time;

use super::timers::Timers;
use crate::qp::ConnectedQp;
use crate::stream::per_rail::RailBytes;
use crate::stream::send::quantum::OpenBatch;
use crate::stream::send::send_limits::Need;

/// The resource that queue pairs wait for; there is one queue for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// Their turn to send.
    ToSend = 0,
    /// The endpoint's budget.
    ForBudget = 1,
}

/// A queue linked through its members, so that visiting a member touches no other memory.
///
/// Invariant: the members from the first to the last are exactly those whose [`Place`] in this
/// queue is taken.
#[derive(Debug)]
pub(super) struct Turns {
    what: Waiting,
    /// The first and the last member.
    ends: Option<(u32, u32)>,
}

/// The queue pairs that may send, and the one that sends now.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Queue pairs that may have something to send, in turn.
    pub(super) ready: Turns,
    /// Queue pairs that wait for budget, in turn. The first may be in the middle of its turn.
    pub(super) starved: Turns,
    /// Whether budget is being handed out: there was enough for a batch, and some of it is left.
    pub(super) hands_out: bool,
    /// The queue pair whose run of segments is being handed out.
    pub(super) running: Option<u32>,
    /// The present batch, while segments of other queue pairs may join it.
    pub(super) batch: OpenBatch,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Schedule {
            ready: Turns::new(Waiting::ToSend),
            starved: Turns::new(Waiting::ForBudget),
            hands_out: false,
            running: None,
            batch: OpenBatch::default(),
        }
    }
}

/// A queue pair of an endpoint.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) qp: ConnectedQp,
    /// Places in the queues `ready` and `starved`.
    pub(super) turns: [Place; 2],
    /// The budget that would suffice, while the queue pair is in `starved`.
    pub(super) needs: Need,
    pub(super) is_dirty: bool,
    /// The next queue pair in the dirty list.
    pub(super) next_dirty: Option<u32>,
    pub(super) armed: Time,
    pub(super) paced: Time,
    /// The part of the endpoint's `in_flight` that belongs to this queue pair.
    pub(super) in_flight: RailBytes,
}

/// The turn of a queue pair to send.
pub(super) struct Turn {
    pub(super) index: u32,
    /// Whether the queue pair may use the budget that is left; otherwise it may use none.
    pub(super) has_budget: bool,
    /// Whether other queue pairs wait for budget.
    pub(super) is_shared: bool,
}

/// The links of a member in one queue.
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

    /// Appends a queue pair, unless it is in the queue already.
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

    /// Removes a queue pair, if it is in the queue.
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

    /// Links the neighbours of a removed member with each other.
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

    /// Moves a queue pair to the end of the queue.
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
