//! Which queue pair is asked for packets next, with how much of the budget, and when queue pairs want to be looked at.

use super::{Endpoint, LONGEST_SEGMENT, Member, Timers};

/// Who is asked, and the budget that it has.
pub(super) struct Turn {
    pub(super) index: u32,
    pub(super) bytes: u64,
    /// Others wait for budget.
    pub(super) is_shared: bool,
}

impl Endpoint {
    /// Who is asked for a packet next, and what it may put in flight. Budget goes to those who wait for it, in turn and
    /// as soon as there is enough for the first; meanwhile the others send what needs none, and line up.
    pub(super) fn next_turn(&self) -> Option<Turn> {
        let bytes = self.budget();
        let first = self.starved.first();
        match first.filter(|index| self.needs(*index) <= bytes) {
            Some(index) => Some(Turn { index, bytes, is_shared: true }),
            None => {
                let is_shared = first.is_some();
                let bytes = if is_shared { 0 } else { bytes };
                self.ready.first().map(|index| Turn { index, bytes, is_shared })
            }
        }
    }

    fn needs(&self, index: u32) -> u64 {
        self.members[index as usize].as_ref().map_or(0, |member| member.needs)
    }

    /// It has sent a packet; `yields`: and its turn is over.
    pub(super) fn has_sent(&mut self, index: u32, yields: bool) {
        let Some(member) = self.members[index as usize].as_mut() else { return };
        if self.starved.has(member) && self.starved.first() == Some(index) {
            member.needs = 0; // what it needs next is not known
            if yields {
                member.rearm_timeout(index, &mut self.timers);
                self.starved.requeue(index, &mut self.members);
            }
        } else if yields {
            self.ready.requeue(index, &mut self.members);
        }
    }

    /// All that it can send needs more budget than there is, or than is its to take.
    pub(super) fn starve(&mut self, index: u32, needs: u64) {
        self.ready.remove(index, &mut self.members);
        if let Some(member) = self.members[index as usize].as_mut() {
            member.needs = needs;
        }
        self.starved.push(index, &mut self.members);
        self.rearm(index);
    }

    /// What the peer's socket can still hold. An idle peer takes one segment, however small its buffer is.
    fn budget(&self) -> u64 {
        let buffer = self.config.peer_receive_buffer;
        match self.in_flight {
            0 => buffer.max(LONGEST_SEGMENT),
            in_flight => buffer.saturating_sub(in_flight),
        }
    }

    /// It may have something to send.
    pub(super) fn wake(&mut self, index: u32) {
        self.ready.push(index, &mut self.members);
    }

    /// Sees to it that the queue pair's earliest deadlines will be noticed.
    pub(super) fn rearm(&mut self, index: u32) {
        let Some(member) = self.members[index as usize].as_mut() else { return };
        member.rearm_timeout(index, &mut self.timers);
        let paced = member.qp.paced_until();
        if paced < member.paced {
            member.paced = paced;
            self.paced.push(paced, index);
        }
    }
}

impl Member {
    /// Follows its bytes in flight; `all`: those of the endpoint.
    #[inline]
    pub(super) fn account(&mut self, all: &mut u64) {
        let after = self.qp.in_flight();
        *all = *all + after - self.in_flight;
        self.in_flight = after;
    }

    fn rearm_timeout(&mut self, index: u32, timers: &mut Timers) {
        let timeout = self.qp.next_timeout();
        if timeout < self.armed {
            self.armed = timeout;
            timers.push(timeout, index);
        }
    }
}
