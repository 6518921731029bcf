//! Accepting connections: the worker that listens knows the attempts, the worker of the queue pair
//! answers.
//!
//! The ACCEPT leaves from the port where the queue pair receives, also when it is repeated: that is
//! how the initiator learns where its data is to go.

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
    /// Answers a CONNECT, also when it is repeated.
    pub(super) fn answer_connect(&self, outbox: &mut Outbox) {
        let receives = self.shared.state().receives();
        if let Some(accepted) = &self.accepted {
            let connected = self.remote_addrs.as_ref().map(PeerAddrs::first_pair);
            let to = connected.unwrap_or(accepted.attempt().from);
            outbox.answer(to, &accepted.answer(receives));
        }
    }
}

/// On the worker of the queue pair.
impl Worker {
    /// Takes a connection for queue pair `index`, and says so to the initiator.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        request: &Request,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        let keyed = self.security.clone().filter(|_| !request.sealed_in.is_empty());
        let mtu = self.mtu_towards(request.from, keyed.is_some())?;
        let (ours, routing) = self.offer(index, request.from.remote, (mtu, keyed.is_some()))?;
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

/// On the worker that listens.
impl Worker {
    /// False: the engine listens already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        self.listening.listen(backlog)
    }

    pub(crate) fn stop_listening(&mut self) {
        self.listening.stop_listening(self.clock.now());
    }

    /// From now on the worker of this queue pair answers the attempt's CONNECTs.
    pub(crate) fn leave_answer_to(&mut self, qp: Arc<QpShared>, attempt: AttemptId) {
        self.listening.accepted(attempt, qp);
    }

    /// Sends a REJECT.
    pub(crate) fn turn_down(&mut self, attempt: AttemptId, reason: RejectReason) {
        self.listening.turn_down(self.clock.now(), attempt, reason, &mut self.outbox);
        self.progress();
    }

    /// The queue pair that was accepted for this attempt is gone, or was reset.
    pub(crate) fn forget_accepted(&mut self, attempt: AttemptId, qp: QpId) {
        self.listening.forget(self.clock.now(), attempt, qp);
    }
}
