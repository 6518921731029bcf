//! Completions that failed, as programs on a NIC would see them.
//!
//! The engine ends a queue pair as soon as it knows that the peer is gone. A NIC hears of that only when it sends: receives
//! stay posted, and the first send that gets no answer exceeds its retries. So what the engine has flushed waits here until
//! a send has failed, or the program moves the queue pair to ERR.

use braid::{Completion, EndCause, QpState, Status};
use braid_verbs::abi::{IBV_QPS_ERR, IBV_QPS_RESET};

use super::QueuePair;

/// Invariant: nothing waits once `seen`.
#[derive(Default)]
pub(super) struct Failures {
    /// The program knows that the queue pair is in ERR.
    seen: bool,
    /// Receives that were flushed, in posting order.
    waiting: Vec<Completion>,
}

impl QueuePair {
    /// A completion that failed, as the program shall see it; `None`: it waits.
    pub(crate) fn on_failure(&self, completion: Completion) -> Option<Completion> {
        let mut failures = self.failures();
        if failures.seen || !self.ended_unheard() {
            failures.seen = true;
            return Some(completion);
        }
        if completion.work.is_recv() {
            failures.waiting.push(completion);
            return None;
        }
        failures.seen = true;
        let waiting = std::mem::take(&mut failures.waiting);
        drop(failures);
        self.give_out(waiting);
        let is_flushed = completion.status == Status::Flushed;
        let status = if is_flushed { Status::RetryExceeded } else { completion.status };
        Some(Completion { status, ..completion })
    }

    /// Whether the engine has ended it for a reason that a NIC would not have noticed.
    fn ended_unheard(&self) -> bool {
        let cause = self.engine.error().map(|error| error.cause);
        matches!(cause, Some(EndCause::Peer | EndCause::PeerSilent | EndCause::PeerUnknown))
    }

    /// The program has moved it to ERR.
    pub(super) fn failed_by_program(&self) {
        let mut failures = self.failures();
        failures.seen = true;
        let waiting = std::mem::take(&mut failures.waiting);
        drop(failures);
        self.give_out(waiting);
    }

    /// It begins again.
    pub(super) fn forget_failures(&self) {
        *self.failures() = Failures::default();
    }

    fn give_out(&self, waiting: Vec<Completion>) {
        for completion in waiting {
            // Had the queue overrun, all would have been told.
            let _ = self.recv_cq.engine.push(completion);
        }
    }

    /// The state as the program shall see it, where it was told to be in `told`.
    pub(super) fn state_seen(&self, told: u32) -> u32 {
        let has_failed = self.engine.state() == QpState::Error && told != IBV_QPS_RESET;
        let is_heard = || self.failures().seen || !self.ended_unheard();
        if has_failed && is_heard() { IBV_QPS_ERR } else { told }
    }
}
