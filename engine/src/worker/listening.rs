//! The worker that listens: HELLOs and CONNECTs go to the responder, new requests to the listener.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{AttemptId, Reply, Responder};
use braid_wire::{Connect, Hello, QpId, RejectReason, Setup, Time};

use super::outbox::Outbox;
use crate::backlog::Backlog;
use crate::counters::WorkerCounters;
use crate::qp::{Asked, QpShared};
use crate::random;

/// What a worker answers to those who want to connect.
pub(crate) struct Listening {
    responder: Responder<Arc<QpShared>>,
    backlog: Option<Arc<Backlog>>,
}

impl Listening {
    pub(crate) fn new() -> Self {
        Listening { responder: Responder::new(random::bytes()), backlog: None }
    }

    /// Begins to listen. False: somebody does already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        let free = self.backlog.is_none();
        if free {
            self.backlog = Some(backlog);
        }
        free
    }

    pub(crate) fn stop_listening(&mut self) {
        if let Some(backlog) = self.backlog.take() {
            self.responder.forget_stale(&mut backlog.waiting());
        }
    }

    pub(crate) fn on_hello(&self, now: Time, from: SocketAddr, hello: Hello, outbox: &mut Outbox) {
        let answer = self.responder.on_hello(now, from, hello, self.backlog.is_some());
        outbox.answer(from, &answer);
    }

    pub(crate) fn on_connect(
        &mut self,
        now: Time,
        from: SocketAddr,
        connect: &Connect,
        outbox: &mut Outbox,
        counters: &WorkerCounters,
    ) {
        let backlog = self.backlog.as_deref();
        let wanted = |data: &[u8]| backlog.is_some_and(|backlog| backlog.wants(data));
        let mut waiting = backlog.map(Backlog::waiting);
        match self.responder.on_connect(now, from, connect, waiting.as_deref_mut(), wanted) {
            Reply::Requested => backlog.into_iter().for_each(Backlog::tell),
            Reply::Pending => {}
            Reply::Repeat(qp) => qp.ask(Asked::Repeat),
            Reply::Rejected(reject) => {
                match reject.reason {
                    RejectReason::Busy => counters.setup_busy.add(1),
                    _ => counters.setup_refused.add(1),
                }
                outbox.answer(from, &Setup::Reject(reject));
            }
        }
    }

    /// A packet of a version that this build does not speak.
    pub(crate) fn on_other_version(&self, from: SocketAddr, bytes: &[u8], outbox: &mut Outbox) {
        if let Some(answer) = self.responder.on_other_version(bytes) {
            outbox.answer(from, &answer);
        }
    }

    /// The application accepts with this queue pair, whose worker answers from now on.
    pub(crate) fn accepted(&mut self, attempt: AttemptId, qp: Arc<QpShared>) {
        self.responder.accepted(attempt, qp);
    }

    /// The application has refused, or has not even looked.
    pub(crate) fn turn_down(
        &mut self,
        now: Time,
        attempt: AttemptId,
        reason: RejectReason,
        outbox: &mut Outbox,
    ) {
        outbox.answer(attempt.from, &self.responder.turn_down(now, attempt, reason));
    }

    /// The queue pair that was accepted for this attempt is gone, or something else by now.
    pub(crate) fn forget(&mut self, now: Time, attempt: AttemptId, id: QpId) {
        self.responder.forget(now, attempt, |qp| qp.id == id);
    }
}
