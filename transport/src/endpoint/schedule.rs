//! The order in which queue pairs may send, their budgets, and their timers.

use super::members::Endpoint;
use super::turns::{Member, Turn};
use crate::stream::send::send_limits::Need;
use crate::stream::send::subflow::least_batch;

impl Endpoint {
    /// Returns the queue pair that may send next, and whether it has a budget. Queue pairs that
    /// wait for budget get it in turn, as soon as there is enough for the first. Meanwhile the
    /// others send packets that need no budget, and join the queue if they need some.
    pub(super) fn next_turn(&mut self) -> Option<Turn> {
        let first = self.schedule.starved.first();
        if let Some(index) = first {
            self.schedule.hands_out = self.can_serve(index);
            if self.schedule.hands_out {
                return Some(Turn { index, has_budget: true, is_shared: true });
            }
        }
        let is_shared = first.is_some();
        let ready = self.schedule.ready.first();
        ready.map(|index| Turn { index, has_budget: !is_shared, is_shared })
    }

    /// Whether there is enough budget for a starved queue pair. Budget is handed out once there is
    /// enough for a batch, and then until it is used up. Each acknowledgement frees only a segment
    /// or two. If that were handed out at once, batches and their acknowledgements would be as
    /// short when there are many queue pairs.
    fn can_serve(&self, index: u32) -> bool {
        let Some(Member { needs, .. }) = &self.members[index as usize] else { return true };
        let (rail, bytes) = (needs.rail(), needs.bytes());
        let whole = self.config.batch_bytes.min(bytes * u64::from(self.config.longest_batch()));
        let in_flight = self.in_flight.bytes()[rail];
        let least = if self.schedule.hands_out { 0 } else { least_batch(in_flight, whole) };
        bytes.max(least) <= self.in_flight.left()[rail]
    }

    /// Handles a packet that a queue pair has sent. `yields`: its turn is over.
    pub(super) fn has_sent(&mut self, index: u32, yields: bool) {
        let Some(member) = self.members[index as usize].as_mut() else { return };
        if self.schedule.starved.has(member) && self.schedule.starved.first() == Some(index) {
            member.needs = Need::NOTHING; // unknown until the next poll
            if yields {
                member.rearm_timeout(index, &mut self.timers);
                self.schedule.starved.requeue(index, &mut self.members);
            }
        } else if yields {
            self.schedule.ready.requeue(index, &mut self.members);
        }
    }

    /// Makes a queue pair wait for budget: everything that it can send needs more than it may use.
    pub(super) fn starve(&mut self, index: u32, needs: Need) {
        self.schedule.ready.remove(index, &mut self.members);
        if let Some(member) = self.members[index as usize].as_mut() {
            member.needs = needs;
        }
        self.schedule.starved.push(index, &mut self.members);
        self.rearm(index);
    }

    /// Queues a queue pair that may have something to send.
    pub(super) fn wake(&mut self, index: u32) {
        self.schedule.ready.push(index, &mut self.members);
    }

    /// Queues all queue pairs, because what any of them waited for may have become available.
    pub(super) fn wake_all(&mut self) {
        for index in 0..self.members.len() as u32 {
            self.schedule.starved.remove(index, &mut self.members);
            self.wake(index);
        }
    }

    /// Sets timers for the queue pair's earliest deadlines.
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
