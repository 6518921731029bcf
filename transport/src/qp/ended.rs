//! Work requests that have ended, until the driver takes them.

use std::collections::VecDeque;

use super::QueuePair;
use crate::{Completion, Ended, SendWr, Status, Work};

impl QueuePair {
    /// The next work request that has ended, in order for each of the two queues.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// The same of all that there are, at once.
    pub(crate) fn hand_over_ended(&mut self, to: &mut VecDeque<Ended>) {
        to.append(&mut self.ended);
    }

    pub(crate) fn has_ended_work(&self) -> bool {
        !self.ended.is_empty()
    }

    /// A send has ended well.
    pub(super) fn complete_send(&mut self, wr: &SendWr, len: u32) {
        let (qp, wr_id, work) = (self.id, wr.id, wr.op.work());
        let (status, imm, solicited) = (Status::Success, None, false);
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited };
        self.ended.push_back(Ended { completion, is_reported: wr.signalled });
    }

    /// It did not end well, which is always reported.
    pub(super) fn complete_failed(&mut self, wr_id: u64, work: Work, status: Status) {
        let (qp, len, imm, solicited) = (self.id, 0, None, true);
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited };
        self.ended.push_back(Ended { completion, is_reported: true });
    }

    pub(super) fn flush(&mut self, wr_id: u64, work: Work) {
        self.complete_failed(wr_id, work, Status::Flushed);
    }
}
