//! Completions that failed, as programs on a NIC would see them.
//!
//! The engine ends a queue pair as soon as it knows that the peer is gone. A NIC hears of that only when it sends: receives
//! stay posted, and the first send that gets no answer exceeds its retries, which takes its time. `ibv_srq_pingpong` has ended by then, and
//! never looks at the sends that its peer, who has ended before, did not answer. So what the engine has flushed waits here until a send
//! has waited so long, or the program moves the queue pair to ERR.

use std::time::Instant;

use braid::{Completion, EndCause, QpState, Status};
use braid_verbs::abi::{IBV_QPS_ERR, IBV_QPS_RESET};

use super::failures::Failures;
use super::queue_pair::QueuePair;
use crate::connect::inbox::Message;

impl QueuePair {
    /// A completion that failed, as the program shall see it; `None`: it waits.
    pub(crate) fn on_failure(&self, completion: Completion) -> Option<Completion> {
        let mut failures = self.failures();
        if failures.seen || !self.ended_unheard() {
            failures.seen = true;
            return Some(completion);
        }
        failures.waiting.push(completion);
        let is_first_send = !completion.work.is_recv() && !failures.is_due;
        failures.is_due |= is_first_send;
        drop(failures);
        if is_first_send {
            let retries = self.attributes().retry_time();
            self.running.tell(Message::Unanswered(self.number, Instant::now() + retries));
        }
        None
    }

    /// A send has got no answer for as long as a NIC would have tried: it has exceeded its retries, and the rest is flushed.
    pub(crate) fn exceed_retries(&self) {
        // It has begun anew since.
        if !self.failures().is_due {
            return;
        }
        let mut waiting = self.see_failure();
        let first = waiting.iter_mut().find(|completion| !completion.work.is_recv());
        if let Some(first) = first.filter(|first| first.status == Status::Flushed) {
            first.status = Status::RetryExceeded;
        }
        // As a NIC: what has failed comes before what it has flushed.
        waiting.sort_by_key(|completion| completion.work.is_recv());
        self.give_out(waiting);
    }

    /// Whether the engine has ended it for a reason that a NIC would not have noticed.
    fn ended_unheard(&self) -> bool {
        let cause = self.engine.error().map(|error| error.cause);
        use EndCause::{Peer, PeerGone, PeerSilent, PeerUnknown};
        matches!(cause, Some(Peer | PeerSilent | PeerGone | PeerUnknown))
    }

    /// The program has moved it to ERR.
    pub(super) fn failed_by_program(&self) {
        let waiting = self.see_failure();
        self.give_out(waiting);
    }

    /// From now on nothing waits. Returns what did.
    fn see_failure(&self) -> Vec<Completion> {
        let mut failures = self.failures();
        failures.seen = true;
        std::mem::take(&mut failures.waiting)
    }

    /// It begins again.
    pub(super) fn forget_failures(&self) {
        *self.failures() = Failures::default();
    }

    fn give_out(&self, waiting: Vec<Completion>) {
        for completion in waiting {
            // Had the queue overrun, all would have been told.
            let cq =
                if completion.work.is_recv() { &self.queues.recv_cq } else { &self.queues.send_cq };
            let _ = cq.engine.push(completion);
        }
    }

    /// The state as the program shall see it, where it was told to be in `told`.
    pub(super) fn state_seen(&self, told: u32) -> u32 {
        let has_failed = self.engine.state() == QpState::Error && told != IBV_QPS_RESET;
        let is_heard = || self.failures().seen || !self.ended_unheard();
        if has_failed && is_heard() { IBV_QPS_ERR } else { told }
    }
}
