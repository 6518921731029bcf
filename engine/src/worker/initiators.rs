//! The attempts to connect that a worker's queue pairs make.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{Attempt, ConnectError as SetupError, Initiators, Step};
use braid_wire::{BASE_DATAGRAM, Connect, QpId, Setup, Time};

use super::Worker;
use super::exchange::Exchange;
use super::qps::QpEntry;
use super::reachability::Reachability;
use crate::connect::{ConnectError, Outcome};

/// What a worker keeps with an attempt.
pub(crate) struct Asking {
    /// What is known of each address of the responder, until one has answered.
    pub(crate) reach: HashMap<SocketAddr, Reachability>,
    /// Which attempt it is, for who gives it up.
    pub(crate) number: u64,
    /// Where the application finds how it has ended.
    pub(crate) outcome: Arc<Outcome>,
    /// Present if the connection is to be keyed.
    pub(crate) exchange: Option<Exchange>,
}

/// How an attempt has ended.
pub(crate) enum Ended {
    /// The peer has accepted it, or nobody has.
    Answered(Result<Connect, SetupError>),
    /// The system knows that nobody can answer.
    Unreachable(io::Error),
}

/// Its queue pair is not to be connected any more: it was reset, disconnected or moved to ERR.
pub(super) fn abandon(initiators: &mut Initiators<Asking>, qp: QpId) {
    if let Some(attempt) = initiators.cancel(qp) {
        attempt.driver.outcome.set(Err(ConnectError::Cancelled { addr: attempt.asked }));
    }
}

impl QpEntry {
    /// Ends its attempt if it has left INIT.
    pub(super) fn check_attempt(&self, initiators: &mut Initiators<Asking>) {
        if self.shared.state() != braid_transport::QpState::Init {
            abandon(initiators, self.shared.id);
        }
    }
}

impl Worker {
    /// Nobody wants to hear of this attempt any more, if it is under way.
    pub(crate) fn give_up_connect(&mut self, qp: QpId, number: u64) {
        let attempt = self.initiators.get_mut(qp);
        if attempt.is_some_and(|attempt| attempt.driver.number == number) {
            abandon(&mut self.initiators, qp);
        }
    }

    pub(super) fn run_initiators(&mut self, now: Time) -> bool {
        let mut worked = false;
        while let Some(step) = self.initiators.poll(now) {
            worked = true;
            match step {
                Step::Send(qp, to, setup) => {
                    let setup = self.seal_setup(qp, setup);
                    let mut bytes = Vec::new();
                    setup.encode(&mut bytes);
                    match self.in_vain(qp, &setup, &bytes) {
                        Some(why) => self.end_unreachable(now, qp, why),
                        None => self.outbox.probe(to.into(), &bytes),
                    }
                }
                Step::Ended(attempt, outcome) => {
                    self.end_attempt(now, *attempt, Ended::Answered(outcome));
                }
            }
        }
        worked
    }

    /// What a keyed attempt sends instead of a CONNECT.
    fn seal_setup(&mut self, qp: QpId, setup: Setup) -> Setup {
        let Setup::Connect(connect) = &setup else { return setup };
        let attempt = self.initiators.get_mut(qp);
        let exchange = attempt.and_then(|attempt| attempt.driver.exchange.as_mut());
        exchange.map(|exchange| exchange.seal(connect)).unwrap_or(setup)
    }

    /// Why this packet cannot reach anybody, if the system knows.
    fn in_vain(&mut self, qp: QpId, setup: &Setup, bytes: &[u8]) -> Option<io::Error> {
        let is_short = |len: u16| usize::from(len) < BASE_DATAGRAM;
        let attempt = self.initiators.get_mut(qp).filter(|attempt| !attempt.is_answered())?;
        match setup {
            Setup::Hello(hello) if is_short(hello.len) => {
                let (first, to) = (self.rails.first(), attempt.to);
                attempt.driver.reach.entry(to).or_default().on_hello(first, first.pair(to), bytes)
            }
            _ => None,
        }
    }

    fn end_unreachable(&mut self, now: Time, qp: QpId, why: io::Error) {
        if self.initiators.give_up_address(now, qp) {
            return;
        }
        if let Some(attempt) = self.initiators.cancel(qp) {
            self.end_attempt(now, attempt, Ended::Unreachable(why));
        }
    }

    fn end_attempt(&mut self, now: Time, mut attempt: Attempt<Asking>, ended: Ended) {
        let addr = attempt.asked;
        let ended_with = match ended {
            Ended::Answered(Ok(accept)) => self.complete(now, &mut attempt, accept),
            Ended::Answered(Err(SetupError::TimedOut)) => {
                Err(match self.rails.misrouting(attempt.to) {
                    Some(source) if source.is_grave() => ConnectError::Misrouted { addr, source },
                    _ => ConnectError::TimedOut { addr },
                })
            }
            Ended::Answered(Err(SetupError::Rejected(reason))) => {
                Err(ConnectError::Rejected { addr, reason })
            }
            Ended::Answered(Err(SetupError::PathMtu)) => {
                let first = self.rails.first();
                let route = first.max_datagram(first.pair(attempt.to)).unwrap_or(0);
                Err(ConnectError::PathMtu { addr, route })
            }
            Ended::Unreachable(source) => Err(ConnectError::Unreachable { addr, source }),
        };
        if let Err(error) = &ended_with {
            tracing::info!(qp = %attempt.ours.qp, %error, "not connected");
        }
        attempt.driver.outcome.set(ended_with);
    }
}
