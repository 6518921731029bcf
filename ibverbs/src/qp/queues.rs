//! The queues in which the work of a queue pair completes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braid::{Completion, QpId, Status, Work};

use super::limits::Limits;
use crate::cq::shared::CompletionQueue;
use crate::srq::shared::SharedReceives;

/// The queues of a queue pair. Its flows of datagrams complete sends in them.
pub(crate) struct Queues {
    /// The engine's number of the queue pair, which completions bear.
    number: QpId,
    pub(crate) send_cq: Arc<CompletionQueue>,
    pub(crate) recv_cq: Arc<CompletionQueue>,
    pub(crate) srq: Option<Arc<SharedReceives>>,
    pub(crate) limits: Limits,
    /// Every send has a completion.
    pub(crate) signals_all: bool,
    has_left: AtomicBool,
}

impl Queues {
    /// Enters the queues for a queue pair.
    pub(super) fn enter(
        number: QpId,
        (send_cq, recv_cq): (&Arc<CompletionQueue>, &Arc<CompletionQueue>),
        srq: Option<&Arc<SharedReceives>>,
        limits: Limits,
        signals_all: bool,
    ) -> Self {
        let (send_cq, recv_cq) = (send_cq.enter(), recv_cq.enter());
        let (srq, has_left) = (srq.map(SharedReceives::enter), AtomicBool::new(false));
        Queues { number, send_cq, recv_cq, srq, limits, signals_all, has_left }
    }

    /// Leaves the queues, which may then be destroyed although another thread still holds the queue
    /// pair.
    pub(super) fn leave(&self) {
        if self.has_left.swap(true, Ordering::AcqRel) {
            return;
        }
        self.send_cq.leave();
        self.recv_cq.leave();
        self.srq.iter().for_each(|srq| srq.leave());
    }

    /// The engine's number of the queue pair, which completions bear.
    pub(crate) fn number(&self) -> QpId {
        self.number
    }

    pub(crate) fn have_one_cq(&self) -> bool {
        Arc::ptr_eq(&self.send_cq, &self.recv_cq)
    }

    /// Completes a send that the engine does not know.
    pub(crate) fn complete(&self, wr_id: u64, work: Work, status: Status) {
        self.push(&self.send_cq, wr_id, work, status);
    }

    /// Adds a completion to one of the queues.
    pub(super) fn push(&self, cq: &CompletionQueue, wr_id: u64, work: Work, status: Status) {
        let completion = Completion {
            qp: self.number,
            wr_id,
            work,
            status,
            len: 0,
            imm: None,
            solicited: false,
            source: QpId::default(),
        };
        // An overrun is reported by the engine.
        let _ = cq.engine.push(completion);
    }
}
