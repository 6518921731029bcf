//! The connections that a worker's queue pairs are trying to make.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{ConnectError as SetupError, Initiator};
use braid_wire::{Connect, Offer, Setup, Time};

use super::outbox::Outbox;
use crate::connect::Outcome;
use crate::link::Via;

/// One attempt.
pub(crate) struct Attempting {
    pub(crate) initiator: Initiator,
    /// The queue pair's index.
    pub(crate) index: usize,
    pub(crate) ours: Offer,
    /// Where the responder listens.
    pub(crate) to: SocketAddr,
    /// Where its last answer came from.
    pub(crate) answered_from: SocketAddr,
    /// Where the application waits.
    pub(crate) outcome: Arc<Outcome>,
}

/// By nonce, which every answer repeats.
#[derive(Default)]
pub(crate) struct Initiators {
    attempts: HashMap<u64, Attempting>,
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

    /// False: nobody has asked for it.
    pub(crate) fn on_answer(&mut self, now: Time, from: SocketAddr, answer: &Setup) -> bool {
        let nonce = match answer {
            Setup::Cookie { nonce, .. } => *nonce,
            Setup::Accept(accept) => accept.nonce,
            Setup::Reject(reject) => reject.nonce,
            Setup::Hello(_) | Setup::Connect(_) => return false,
        };
        let Some(attempt) = self.attempts.get_mut(&nonce) else { return false };
        attempt.answered_from = from;
        attempt.initiator.on_setup(now, answer);
        true
    }

    /// Sends what is due and takes out an attempt that has ended, with how it did.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
    ) -> Option<(Attempting, Result<Connect, SetupError>)> {
        let mut ended = None;
        for (nonce, attempt) in &mut self.attempts {
            if let Some(outcome) = attempt.initiator.outcome(now) {
                ended = Some((*nonce, outcome.cloned()));
                break;
            }
            while let Some(setup) = attempt.initiator.poll_transmit(now) {
                let mut bytes = Vec::new();
                setup.encode(&mut bytes);
                outbox.note(attempt.to, Via::Port, &bytes);
            }
        }
        let (nonce, outcome) = ended?;
        self.attempts.remove(&nonce).map(|attempt| (attempt, outcome))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.attempts.values().filter_map(|attempt| attempt.initiator.next_timeout()).min()
    }
}
