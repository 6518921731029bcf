//! The connections that a worker's queue pairs are trying to make.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{ConnectError as SetupError, Initiator, QpState};
use braid_wire::{Connect, Control, ControlKind, Offer, Setup, Time};

use super::outbox::Outbox;
use crate::connect::Outcome;
use crate::link::Via;
use crate::qp::QpShared;

/// One attempt.
pub(crate) struct Attempting {
    pub(crate) initiator: Initiator,
    pub(crate) qp: Arc<QpShared>,
    pub(crate) ours: Offer,
    /// Where the responder listens.
    pub(crate) to: SocketAddr,
    /// Where its last answer came from.
    pub(crate) answered_from: SocketAddr,
    /// Where the application waits.
    pub(crate) outcome: Arc<Outcome>,
}

/// How an attempt has ended.
pub(crate) enum Ended {
    /// The peer has accepted it, or nobody has.
    Answered(Result<Connect, SetupError>),
    /// Its queue pair has left INIT: the application has moved it to ERR, or its completion queue has overrun.
    Abandoned,
}

/// By nonce, which every answer repeats.
#[derive(Default)]
pub(crate) struct Initiators {
    attempts: HashMap<u64, Attempting>,
    /// Nonces of the connections that came of attempts: an ACCEPT of theirs is a repeated one.
    connected: HashSet<u64>,
}

impl Initiators {
    pub(crate) fn insert(&mut self, nonce: u64, attempt: Attempting) {
        self.attempts.insert(nonce, attempt);
    }

    pub(crate) fn remove(&mut self, nonce: u64) -> Option<Attempting> {
        self.attempts.remove(&nonce)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// A connection has come of this attempt; it lasts until [`Initiators::forget`].
    pub(crate) fn connected(&mut self, nonce: u64) {
        self.connected.insert(nonce);
    }

    pub(crate) fn forget(&mut self, nonce: u64) {
        self.connected.remove(&nonce);
    }

    /// False: nobody has asked for it.
    pub(crate) fn on_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Setup,
        outbox: &mut Outbox,
    ) -> bool {
        let nonce = match answer {
            Setup::Cookie { nonce, .. } => *nonce,
            Setup::Accept(accept) => accept.nonce,
            Setup::Reject(reject) => reject.nonce,
            Setup::Hello(_) | Setup::Connect(_) => return false,
        };
        let Some(attempt) = self.attempts.get_mut(&nonce) else {
            if let Setup::Accept(accept) = answer
                && !self.connected.contains(&nonce)
            {
                decline(from, &accept.offer, outbox);
            }
            return self.connected.contains(&nonce);
        };
        attempt.answered_from = from;
        attempt.initiator.on_setup(now, answer);
        true
    }

    /// Sends what is due and takes out an attempt that has ended, with how it did.
    pub(crate) fn poll(&mut self, now: Time, outbox: &mut Outbox) -> Option<(Attempting, Ended)> {
        let mut ended = None;
        for (nonce, attempt) in &mut self.attempts {
            if attempt.qp.state() != QpState::Init {
                ended = Some((*nonce, Ended::Abandoned));
                break;
            }
            if let Some(outcome) = attempt.initiator.outcome(now) {
                ended = Some((*nonce, Ended::Answered(outcome.cloned())));
                break;
            }
            while let Some(setup) = attempt.initiator.poll_transmit(now) {
                let mut bytes = Vec::new();
                setup.encode(&mut bytes);
                outbox.note(attempt.to, Via::Port, &bytes);
            }
        }
        let (nonce, ended) = ended?;
        self.attempts.remove(&nonce).map(|attempt| (attempt, ended))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.attempts.values().filter_map(|attempt| attempt.initiator.next_timeout()).min()
    }
}

/// The peer has accepted what is over here: its queue pair is told that it has nobody to talk to.
pub(crate) fn decline(to: SocketAddr, theirs: &Offer, outbox: &mut Outbox) {
    let control =
        Control { kind: ControlKind::Disconnect, qp: theirs.qp, token: theirs.token, stamp: 0 };
    let mut bytes = Vec::new();
    control.encode(&mut bytes);
    outbox.reply(to, &bytes);
}
