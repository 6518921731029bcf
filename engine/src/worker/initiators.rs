//! The attempts to connect of a worker's queue pairs.

use std::io;

use braid_transport::{Attempt, Carrier, ConnectError as SetupError, Step};
use braid_wire::{BASE_DATAGRAM, Connect, QpId, Setup, Time};

use super::Worker;
use super::attempt::{AttemptState, abandon};
use crate::connect::ConnectError;

/// The end of an attempt.
pub(crate) enum AttemptEnd {
    /// The peer has answered, or no answer came.
    Answered(Result<Connect, SetupError>),
    /// The system reports that no answer can come.
    Unreachable(io::Error),
}

impl Worker {
    /// Cancels an attempt if it is under way.
    pub(crate) fn give_up_connect(&mut self, qp: QpId, number: u64) {
        let attempt = self.initiators.get_mut(qp);
        if attempt.is_some_and(|attempt| attempt.driver.number == number) {
            abandon(&mut self.initiators, qp);
        }
    }

    /// Whether the peer of an attempt that is under way has answered at all.
    pub(crate) fn is_answered(&mut self, qp: QpId) -> bool {
        self.initiators.get_mut(qp).is_some_and(|attempt| attempt.is_answered())
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
                        None => self.outbox.probe(to, &bytes),
                    }
                }
                Step::Ended(attempt, outcome) => {
                    self.end_attempt(now, *attempt, AttemptEnd::Answered(outcome));
                }
            }
        }
        worked
    }

    /// Seals the CONNECT of a keyed attempt.
    fn seal_setup(&mut self, qp: QpId, setup: Setup) -> Setup {
        let Setup::Connect(connect) = &setup else { return setup };
        let attempt = self.initiators.get_mut(qp);
        let exchange = attempt.and_then(|attempt| attempt.driver.exchange.as_mut());
        exchange.map(|exchange| exchange.seal(connect)).unwrap_or(setup)
    }

    /// The reason why this packet cannot arrive, if the system knows one.
    fn in_vain(&mut self, qp: QpId, setup: &Setup, bytes: &[u8]) -> Option<io::Error> {
        let is_short = |len: u16| usize::from(len) < BASE_DATAGRAM;
        let attempt = self.initiators.get_mut(qp).filter(|attempt| !attempt.is_answered())?;
        let Setup::Hello(hello) = setup else { return None };
        let at = (attempt.to, attempt.carrier);
        if !is_short(hello.len) {
            let is_first = attempt.carrier == Carrier::default();
            attempt.driver.trouble.unanswered += u32::from(is_first);
            return None;
        }
        let (first, to) = (self.rails.first(), self.rails.routed(at.0, at.1));
        let is_replaceable = attempt.carrier.index() + 1 < self.caps.len();
        let AttemptState { reach, trouble, .. } = &mut attempt.driver;
        let reach = reach.entry(at).or_default();
        let why = reach.on_hello(first, to, bytes, is_replaceable);
        if attempt.carrier == Carrier::default()
            && let Some(refused) = reach.refusal()
        {
            trouble.refused = Some(refused.to_string());
        }
        why
    }

    fn end_unreachable(&mut self, now: Time, qp: QpId, why: io::Error) {
        if self.initiators.give_up_address(now, qp) {
            return;
        }
        if let Some(attempt) = self.initiators.cancel(qp) {
            self.end_attempt(now, attempt, AttemptEnd::Unreachable(why));
        }
    }

    fn end_attempt(&mut self, now: Time, mut attempt: Attempt<AttemptState>, ended: AttemptEnd) {
        let addr = attempt.asked;
        let ended_with = match ended {
            AttemptEnd::Answered(Ok(accept)) => self.complete(now, &mut attempt, accept),
            AttemptEnd::Answered(Err(SetupError::TimedOut)) => {
                Err(match self.rails.misrouting(attempt.to) {
                    Some(source) if source.is_grave() => ConnectError::Misrouted { addr, source },
                    _ => ConnectError::TimedOut { addr, over: self.plan.protocols.join(" or ") },
                })
            }
            AttemptEnd::Answered(Err(SetupError::Rejected(reason))) => {
                Err(ConnectError::Rejected { addr, reason })
            }
            AttemptEnd::Answered(Err(SetupError::PathMtu)) => {
                let to = self.rails.routed(attempt.to, attempt.carrier);
                let route = self.rails.first().max_datagram(to).unwrap_or(0);
                Err(ConnectError::PathMtu { addr, route })
            }
            AttemptEnd::Unreachable(source) => Err(ConnectError::Unreachable { addr, source }),
        };
        if let Err(error) = &ended_with {
            tracing::info!(qp = %attempt.ours.qp, %error, "not connected");
        }
        attempt.driver.outcome.set(ended_with);
    }
}
