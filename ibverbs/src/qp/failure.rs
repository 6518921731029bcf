//! Failed completions, as programs on a NIC would see them.
//!
//! The engine ends a queue pair as soon as it knows that the peer is gone. A NIC notices that only
//! when it sends: receives stay posted, and the first unanswered send exceeds its retries after a
//! while. `ibv_srq_pingpong` ends before that, and never looks at the sends that its peer, which
//! has ended, did not answer. So flushed completions wait here until a send has waited as long as
//! on a NIC, or until the program moves the queue pair to ERR.

use std::time::Instant;

use braid::{Completion, EndCause, QpState, Status};
use braid_verbs::abi::{IBV_QPS_ERR, IBV_QPS_RESET};

use super::failures::Failures;
use super::queue_pair::QueuePair;
use crate::connect::inbox::ControlMessage;

impl QueuePair {
    /// A failed completion, as the program sees it. `None`: the completion waits.
    pub(crate) fn on_failure(&self, completion: Completion) -> Option<Completion> {
        let is_noticed = !self.ended_unnoticed();
        let mut failures = self.failures();
        if failures.seen || is_noticed {
            failures.seen = true;
            return Some(completion);
        }
        failures.waiting.push(completion);
        let is_first_send = !completion.work.is_recv() && !failures.is_due;
        failures.is_due |= is_first_send;
        drop(failures);
        if is_first_send {
            let retries = self.attributes().retry_time();
            self.running
                .send_control(ControlMessage::Unanswered(self.number, Instant::now() + retries));
        }
        None
    }

    /// Reports that a send exceeded its retries, and that the rest was flushed. The control thread
    /// calls this when a NIC would have given up.
    pub(crate) fn exceed_retries(&self) {
        // The queue pair was reset since.
        if !self.failures().is_due {
            return;
        }
        let mut waiting = self.end_waiting();
        let first = waiting.iter_mut().find(|completion| !completion.work.is_recv());
        if let Some(first) = first.filter(|first| first.status == Status::Flushed) {
            first.status = Status::RetryExceeded;
        }
        // As on a NIC, the failed send precedes the receives that it has flushed.
        waiting.sort_by_key(|completion| completion.work.is_recv());
        self.give_out(waiting);
    }

    /// Whether the engine has ended the queue pair for a reason that a NIC would not have noticed.
    /// Over plain RoCEv2 the engine notices what a NIC does.
    fn ended_unnoticed(&self) -> bool {
        let cause = self.engine.error().map(|error| error.cause);
        use EndCause::{Peer, PeerGone, PeerSilent, PeerUnknown};
        matches!(cause, Some(Peer | PeerSilent | PeerGone | PeerUnknown)) && !self.is_roce()
    }

    /// Releases the waiting completions, because the program has moved the queue pair to ERR.
    pub(super) fn failed_by_program(&self) {
        let waiting = self.end_waiting();
        self.give_out(waiting);
    }

    /// Ends the waiting, and returns the completions that waited.
    fn end_waiting(&self) -> Vec<Completion> {
        let mut failures = self.failures();
        failures.seen = true;
        std::mem::take(&mut failures.waiting)
    }

    /// Forgets the failures of a queue pair that is reset.
    pub(super) fn forget_failures(&self) {
        *self.failures() = Failures::default();
    }

    fn give_out(&self, waiting: Vec<Completion>) {
        for completion in waiting {
            let cq =
                if completion.work.is_recv() { &self.queues.recv_cq } else { &self.queues.send_cq };
            // This fails only if the queue has overrun, which the program learns by another event.
            let _ = cq.engine.push(completion);
        }
    }

    /// The state that the program sees. `last_seen` is the last state that it has seen.
    pub(super) fn state_seen(&self, last_seen: u32) -> u32 {
        let has_failed = self.engine.state() == QpState::Error && last_seen != IBV_QPS_RESET;
        let is_noticed = || !self.ended_unnoticed() || self.failures().seen;
        if has_failed && is_noticed() { IBV_QPS_ERR } else { last_seen }
    }
}
