//! Accepting connections. The listening worker knows the attempts, and the worker of the queue pair
//! answers.
//!
//! The ACCEPT, and each repetition of it, leaves from the port where the queue pair receives. The
//! initiator learns from that where to send its data.

use std::sync::Arc;

use braid_transport::{Accepted, AttemptId, Remote, Request};
use braid_wire::{Connect, QpId, RejectReason};

use super::Worker;
use super::exchange;
use super::outbox::Outbox;
use super::qps::QpEntry;
use super::rails::PeerAddrs;
use crate::backlog::Backlog;
use crate::connect::ConnectError;
use crate::qp::QpShared;

impl QpEntry {
    /// Answers a CONNECT, repeated ones included.
    pub(super) fn answer_connect(&self, outbox: &mut Outbox) {
        let receives = self.shared.state().receives();
        if let Some(accepted) = &self.accepted {
            let connected = self.remote_addrs.as_ref().map(PeerAddrs::first_pair);
            let to = connected.unwrap_or(accepted.attempt().from);
            outbox.answer(to, &accepted.answer(receives));
        }
    }
}

/// The worker of the queue pair.
impl Worker {
    /// Accepts a connection for queue pair `index` and tells the initiator.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        request: &Request,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        let keyed = self.security.clone().filter(|_| !request.sealed_in.is_empty());
        let terms = self.terms(request.from, keyed.is_some())?;
        let (ours, routing) = self.offer(index, request.from.remote, &terms)?;
        let theirs = &request.connect.offer;
        let (segments, addrs) = self
            .join(index, &request.connect, request.from)
            .map_err(|source| ConnectError::Join { addr: request.from.remote, source })?;
        let remote = Remote { segments, ..Remote::agree(&ours, theirs) };
        let private_data = private_data.to_vec();
        let (accepted, session) = match keyed {
            None => (Accepted::new(request, ours, private_data, routing), None),
            Some(security) => {
                let nonce = request.connect.nonce;
                let ours = Connect { nonce, cookie: 0, offer: ours, private_data, routing };
                let (message, session) = exchange::accept(&security, request, &ours);
                (Accepted::sealed(request, message), Some(session))
            }
        };
        self.bind(self.clock.now(), index, remote, theirs, (addrs, session));
        if let Some(entry) = self.qps.at(index) {
            entry.accepted = Some(accepted);
            entry.answer_connect(&mut self.outbox);
        }
        self.progress();
        Ok(())
    }
}

/// The listening worker.
impl Worker {
    /// Begins to listen. Returns `false` if the engine listens already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        self.listening.listen(backlog)
    }

    pub(crate) fn stop_listening(&mut self) {
        self.listening.stop_listening(self.clock.now());
    }

    /// Makes the worker of this queue pair answer the attempt's CONNECTs.
    pub(crate) fn leave_answer_to(&mut self, qp: Arc<QpShared>, attempt: AttemptId) {
        self.listening.accepted(attempt, qp);
    }

    /// Sends a REJECT.
    pub(crate) fn turn_down(&mut self, attempt: AttemptId, reason: RejectReason) {
        self.listening.turn_down(self.clock.now(), attempt, reason, &mut self.outbox);
        self.progress();
    }

    /// Forgets a queue pair that was accepted for this attempt and is gone or was reset.
    pub(crate) fn forget_accepted(&mut self, attempt: AttemptId, qp: QpId) {
        self.listening.forget(self.clock.now(), attempt, qp);
    }
}
