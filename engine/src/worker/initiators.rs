//! The connections that a worker's queue pairs are trying to make.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{ConnectError as SetupError, Initiator, QpState};
use braid_wire::{
    BASE_DATAGRAM, Connect, Control, ControlKind, FinalAck, Offer, QpId, Setup, Time,
};

use super::outbox::Outbox;
use super::reachability::Reachability;
use crate::connect::Outcome;
use crate::datapath::Datapath;
use crate::qp::QpShared;
use crate::random;

/// One attempt.
pub(crate) struct Attempting {
    pub(crate) initiator: Initiator,
    pub(crate) qp: Arc<QpShared>,
    pub(crate) ours: Offer,
    /// Where the responder listens, and answers from.
    pub(crate) to: SocketAddr,
    /// `to` is not what was asked for, but where that has answered from.
    pub(crate) moved: bool,
    /// Where the ACCEPT came from: the port of the worker that has accepted.
    pub(crate) accepted_from: SocketAddr,
    /// What is known of the responder, until it has answered.
    pub(crate) reach: Reachability,
    /// Where the application waits.
    pub(crate) outcome: Arc<Outcome>,
}

/// What an answer was good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Nobody has asked for it.
    None,
    /// An attempt goes on with it.
    Taken,
    /// The attempt of this queue pair goes on under another nonce.
    Renamed(QpId, u64),
}

/// How an attempt has ended.
pub(crate) enum Ended {
    /// The peer has accepted it, or nobody has.
    Answered(Result<Connect, SetupError>),
    /// The system knows that nobody can answer.
    Unreachable(io::Error),
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

    pub(crate) fn on_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Setup,
        outbox: &mut Outbox,
    ) -> Use {
        let nonce = match answer {
            Setup::Cookie { nonce, .. } => *nonce,
            Setup::Accept(accept) => accept.nonce,
            Setup::Reject(reject) => reject.nonce,
            Setup::Hello(_) | Setup::Connect(_) => return Use::None,
        };
        let Some(attempt) = self.attempts.get_mut(&nonce) else {
            return self.on_late_answer(from, answer, outbox);
        };
        let is_elsewhere = from.ip() != attempt.to.ip().to_canonical();
        match answer {
            Setup::Cookie { .. } if is_elsewhere => return self.follow(now, from, nonce),
            Setup::Accept(_) if is_elsewhere => return Use::None,
            Setup::Accept(_) if attempt.initiator.outcome(now).is_none() => {
                attempt.accepted_from = from;
            }
            _ => {}
        }
        attempt.initiator.on_setup(now, answer);
        attempt.reach = Reachability::Settled;
        Use::Taken
    }

    /// An answer to an attempt that is over.
    fn on_late_answer(&self, from: SocketAddr, answer: &Setup, outbox: &mut Outbox) -> Use {
        match answer {
            Setup::Accept(accept) if self.connected.contains(&accept.nonce) => Use::Taken,
            Setup::Accept(accept) => {
                decline(from, &accept.offer, outbox);
                Use::None
            }
            _ => Use::None,
        }
    }

    /// A host that is bound to all its addresses may answer from another one than was asked. The attempt goes there,
    /// once, with another nonce: whoever returns that receives at this address, which the first nonce does not prove.
    /// Otherwise one that is asked could have us send to somebody else.
    fn follow(&mut self, now: Time, to: SocketAddr, nonce: u64) -> Use {
        if self.attempts.get(&nonce).is_none_or(|attempt| attempt.moved) {
            return Use::None;
        }
        let Some(mut attempt) = self.attempts.remove(&nonce) else { return Use::None };
        let renamed = random::number();
        attempt.initiator.restart(now, renamed);
        (attempt.to, attempt.moved, attempt.reach) = (to, true, Reachability::Settled);
        let qp = attempt.qp.id;
        self.attempts.insert(renamed, attempt);
        Use::Renamed(qp, renamed)
    }

    /// Sends what is due and takes out an attempt that has ended, with how it did.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        datapath: &dyn Datapath,
        outbox: &mut Outbox,
    ) -> Option<(Attempting, Ended)> {
        let ended = self.attempts.iter_mut().find_map(|(nonce, attempt)| {
            attempt.poll(now, datapath, outbox).map(|ended| (*nonce, ended))
        });
        let (nonce, ended) = ended?;
        self.attempts.remove(&nonce).map(|attempt| (attempt, ended))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.attempts.values().filter_map(|attempt| attempt.initiator.next_timeout()).min()
    }
}

impl Attempting {
    /// Sends what is due, unless the attempt has ended.
    fn poll(&mut self, now: Time, datapath: &dyn Datapath, outbox: &mut Outbox) -> Option<Ended> {
        if self.qp.state() != QpState::Init {
            return Some(Ended::Abandoned);
        }
        if let Some(outcome) = self.initiator.outcome(now) {
            return Some(Ended::Answered(outcome.cloned()));
        }
        while let Some(setup) = self.initiator.poll_transmit(now) {
            let mut bytes = Vec::new();
            setup.encode(&mut bytes);
            if let Setup::Hello(hello) = setup
                && usize::from(hello.len) < BASE_DATAGRAM
                && let Some(why) = self.reach.on_hello(datapath, self.to, &bytes)
            {
                return Some(Ended::Unreachable(why));
            }
            outbox.probe(self.to, &bytes);
        }
        None
    }
}

/// The peer has accepted what is over here: its queue pair is told that it has nobody to talk to.
pub(crate) fn decline(to: SocketAddr, theirs: &Offer, outbox: &mut Outbox) {
    let nothing = FinalAck { requests: theirs.psn, responses: theirs.psn, refusal: None };
    let (kind, from) = (ControlKind::Disconnect(nothing), QpId::default());
    let control = Control { kind, qp: theirs.qp, from, token: theirs.token, stamp: 0 };
    let mut bytes = Vec::new();
    control.encode(&mut bytes);
    outbox.send(to, &bytes);
}
