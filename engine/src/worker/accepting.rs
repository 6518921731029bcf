//! Accepting connections: the worker that listens knows the attempts, the worker of the queue pair answers.
//!
//! The ACCEPT leaves from the port where the queue pair receives, also when it is repeated: that is how the initiator
//! learns where its data is to go.

use std::sync::Arc;

use braid_transport::Remote;
use braid_wire::{Connect, QpId, RejectReason, Setup};

use super::Worker;
use super::outbox::Outbox;
use super::qps::QpEntry;
use super::responder::{Attempt, reject};
use crate::backlog::{Backlog, Incoming};
use crate::connect::ConnectError;
use crate::qp::QpShared;

/// What a queue pair was accepted for.
pub(crate) struct Accepted {
    pub(crate) attempt: Attempt,
    /// The encoded ACCEPT.
    packet: Vec<u8>,
}

impl Accepted {
    fn send(&self, outbox: &mut Outbox) {
        outbox.send(self.attempt.0, &self.packet);
    }

    /// The CONNECT has come again. An initiator that hears of its connection when that has ended would connect to
    /// nobody.
    pub(super) fn repeat(&self, is_alive: bool, outbox: &mut Outbox) {
        let (to, nonce) = self.attempt;
        if is_alive {
            outbox.send(to, &self.packet);
        } else {
            reject(outbox, to, nonce, RejectReason::Refused);
        }
    }
}

impl QpEntry {
    /// Answers a CONNECT that was repeated.
    pub(super) fn repeat_accept(&self, outbox: &mut Outbox) {
        let is_alive = self.shared.state().receives();
        self.accepted.iter().for_each(|accepted| accepted.repeat(is_alive, outbox));
    }
}

/// On the worker of the queue pair.
impl Worker {
    /// Takes a connection for queue pair `index`, and says so to the initiator.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        incoming: &Incoming,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        let (ours, routing) = self.offer(index, incoming.from)?;
        let theirs = &incoming.connect.offer;
        let segments = self
            .join(index, &incoming.connect, incoming.from)
            .map_err(|source| ConnectError::Join { addr: incoming.from, source })?;
        let remote = Remote { segments, ..Remote::agree(&ours, theirs) };
        self.bind(self.clock.now(), index, remote, theirs, incoming.from);
        let (nonce, private_data) = (incoming.connect.nonce, private_data.to_vec());
        let accept = Connect { nonce, cookie: 0, offer: ours, private_data, routing };
        let mut packet = Vec::new();
        Setup::Accept(accept).encode(&mut packet);
        let accepted = Accepted { attempt: incoming.attempt(), packet };
        accepted.send(&mut self.outbox);
        if let Some(entry) = self.qps.at(index) {
            entry.accepted = Some(accepted);
        }
        self.progress();
        Ok(())
    }
}

/// On the worker that listens.
impl Worker {
    /// False: the engine listens already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        self.responder.listen(backlog)
    }

    pub(crate) fn stop_listening(&mut self) {
        self.responder.stop_listening();
    }

    /// From now on the worker of this queue pair answers the attempt's CONNECTs.
    pub(crate) fn leave_answer_to(&mut self, qp: Arc<QpShared>, attempt: Attempt) {
        self.responder.accepted(attempt, qp);
    }

    /// Sends a REJECT.
    pub(crate) fn turn_down(&mut self, attempt: Attempt, reason: RejectReason) {
        self.responder.turn_down(self.clock.now(), attempt, reason, &mut self.outbox);
        self.progress();
    }

    /// The queue pair that was accepted for this attempt is gone, or was reset.
    pub(crate) fn forget_accepted(&mut self, attempt: Attempt, qp: QpId) {
        self.responder.forget(self.clock.now(), attempt, qp);
    }
}
