//! The connection attempts of the queue pairs of one driver.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use braid_wire::{Connect, Control, ControlKind, FinalAck, Offer, QpId, RejectReason, Setup, Time};

use super::addresses::{AddrPair, Carrier, LocalAddr};
use super::error::ConnectError;
use super::initiator::Initiator;
use super::terms::OfferTerms;

/// Time without an answer after which the next address of a host is tried (RFC 8305, section 5:
/// Connection Attempt Delay).
const ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// An address of the responder with a carrier, and what is sent there only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponderAddr {
    /// The address.
    pub to: SocketAddr,
    /// The carrier of the packets.
    pub carrier: Carrier,
    /// The nonce, which has to be unpredictable.
    pub nonce: u64,
    /// The terms of the offer.
    pub terms: OfferTerms,
}

/// A connection attempt. `D`: data of the driver.
#[derive(Debug)]
pub struct Attempt<D> {
    /// The offer of this end's queue pair.
    pub ours: Offer,
    /// The responder's first address, as given by the application.
    pub asked: SocketAddr,
    /// The address at which the responder listens and from which it answers, as known now.
    pub to: SocketAddr,
    /// The carrier of the packets, as known now.
    pub carrier: Carrier,
    /// The address that the ACCEPT came from, at which the peer receives, and the local address
    /// that it came to.
    pub accepted_from: AddrPair,
    /// The driver's data.
    pub driver: D,
    /// Whether the responder has answered.
    answered: bool,
    /// The nonce for a responder that answers from another address than was asked; `None`: `to` is
    /// that other address.
    spare_nonce: Option<u64>,
    /// Other addresses of the responder, in the order in which they are tried.
    others: VecDeque<ResponderAddr>,
    /// Time at which the next of them is tried, unless the responder has answered.
    turn_at: Time,
    initiator: Initiator,
    due: Time,
}

impl<D> Attempt<D> {
    /// Creates an attempt that begins now, with the offer of `initiator`. `spare_nonce` is for a
    /// responder that answers from another address, and has to be unpredictable, too.
    pub fn new(
        now: Time,
        ours: Offer,
        to: SocketAddr,
        initiator: Initiator,
        spare_nonce: u64,
        driver: D,
    ) -> Self {
        let (spare_nonce, due) = (Some(spare_nonce), now);
        Attempt {
            ours,
            asked: to,
            to,
            carrier: Carrier::default(),
            accepted_from: to.into(),
            driver,
            answered: false,
            spare_nonce,
            others: VecDeque::new(),
            turn_at: now + ADDRESS_DELAY,
            initiator,
            due,
        }
    }

    /// Sets the carrier that is tried first.
    pub fn by(self, carrier: Carrier) -> Self {
        Attempt { carrier, ..self }
    }

    /// Adds other addresses of the responder, or other carriers. They are tried in turn until the
    /// responder answers.
    pub fn with_others(mut self, others: impl IntoIterator<Item = ResponderAddr>) -> Self {
        self.others.extend(others);
        self
    }

    /// The present address and carrier.
    fn current(&self) -> ResponderAddr {
        let terms = OfferTerms::from(&self.ours);
        let (to, carrier, nonce) = (self.to, self.carrier, self.initiator.nonce());
        ResponderAddr { to, carrier, nonce, terms }
    }

    /// Changes to another address or carrier. Returns the previous one.
    fn turn_to(&mut self, now: Time, next: ResponderAddr) -> ResponderAddr {
        let current = self.current();
        let OfferTerms { instance, mtu, receive_buffer, crc } = next.terms;
        self.ours = Offer { instance, mtu, receive_buffer, crc, ..self.ours };
        (self.to, self.carrier) = (next.to, next.carrier);
        self.initiator.restart(now, next.nonce, self.ours);
        self.turn_at = now + ADDRESS_DELAY;
        current
    }

    /// Removes the other carriers to the present address, which has no listener.
    fn drop_carriers(&mut self) -> Vec<ResponderAddr> {
        let to = self.to;
        let (there, others) = self.others.drain(..).partition(|other| other.to == to);
        self.others = others;
        there.into()
    }

    /// Gives up the present address and changes to the next. `None`: there is no other.
    fn drop_address(&mut self, now: Time) -> Option<ResponderAddr> {
        let next = self.others.pop_front()?;
        self.answered = false;
        Some(self.turn_to(now, next))
    }

    /// Whether to try another address of the responder after this outcome.
    fn is_worth_another(&self, outcome: Result<&Connect, ConnectError>) -> bool {
        let not_there = ConnectError::Rejected(RejectReason::NotListening);
        let says_little =
            outcome.err().is_some_and(|it| it == not_there || it == ConnectError::PathMtu);
        says_little && !self.others.is_empty()
    }

    /// Whether the responder has answered.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Time of the next step.
    fn due(&self) -> Time {
        let next = self.initiator.next_timeout().unwrap_or(Time::ZERO);
        if self.answered || self.others.is_empty() { next } else { next.min(self.turn_at) }
    }

    /// The nonces of all addresses.
    fn nonces(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.initiator.nonce()).chain(self.others.iter().map(|other| other.nonce))
    }
}

/// The outcome of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Ignored: the answer belongs to no attempt, or does not count.
    None,
    /// Taken by an attempt or its connection.
    Taken,
    /// The peer has accepted an attempt that is over. The control packet informs its queue pair
    /// that there is no other end.
    Declined(Control),
}

/// The next step of an attempt.
#[derive(Debug)]
pub enum Step<D> {
    /// The attempt of this queue pair sends a packet.
    Send(QpId, AddrPair, Setup),
    /// The attempt is over: the peer has accepted, or the error says why not. If a connection is
    /// made, call [`Initiators::connected`].
    Ended(Box<Attempt<D>>, Result<Connect, ConnectError>),
}

/// The attempts of one driver, by queue pair. A queue pair makes one at a time.
///
/// Invariants: `nonces` has the nonces of all of `attempts` and `connected`. `due` has each of
/// `attempts` once.
#[derive(Debug)]
pub struct Initiators<D> {
    attempts: HashMap<QpId, Attempt<D>>,
    due: BTreeSet<(Time, QpId)>,
    /// Nonces of the attempts that were connected: their ACCEPT may be repeated.
    connected: HashMap<QpId, u64>,
    nonces: HashMap<u64, QpId>,
}

impl<D> Default for Initiators<D> {
    fn default() -> Self {
        Initiators {
            attempts: HashMap::new(),
            due: BTreeSet::new(),
            connected: HashMap::new(),
            nonces: HashMap::new(),
        }
    }
}

impl<D> Initiators<D> {
    /// Begins an attempt. An earlier attempt or connection of the queue pair is over.
    pub fn begin(&mut self, attempt: Attempt<D>) {
        let qp = attempt.ours.qp;
        self.cancel(qp);
        self.forget(qp);
        self.nonces.extend(attempt.nonces().map(|nonce| (nonce, qp)));
        self.due.insert((attempt.due, qp));
        self.attempts.insert(qp, attempt);
    }

    /// Cancels the attempt of this queue pair, if there is one.
    pub fn cancel(&mut self, qp: QpId) -> Option<Attempt<D>> {
        let attempt = self.attempts.remove(&qp)?;
        self.due.remove(&(attempt.due, qp));
        for nonce in attempt.nonces() {
            self.nonces.remove(&nonce);
        }
        Some(attempt)
    }

    /// Gives up the present address of an attempt because it cannot be reached, and changes to the
    /// next. Returns false if there is none.
    pub fn give_up_address(&mut self, now: Time, qp: QpId) -> bool {
        let attempt = self.attempts.get_mut(&qp);
        let Some(gone) = attempt.and_then(|attempt| attempt.drop_address(now)) else {
            return false;
        };
        self.nonces.remove(&gone.nonce);
        self.rearm(qp);
        true
    }

    /// Whether this queue pair has an attempt in progress.
    pub fn is_connecting(&self, qp: QpId) -> bool {
        self.attempts.contains_key(&qp)
    }

    /// Returns the attempt of this queue pair.
    pub fn get_mut(&mut self, qp: QpId) -> Option<&mut Attempt<D>> {
        self.attempts.get_mut(&qp)
    }

    /// Returns the attempt with this nonce.
    pub fn of_nonce(&mut self, nonce: u64) -> Option<&mut Attempt<D>> {
        self.attempts.get_mut(self.nonces.get(&nonce)?)
    }

    /// Records that the attempt has led to a connection, which lasts until [`Initiators::forget`].
    pub fn connected(&mut self, attempt: &Attempt<D>) {
        let (qp, nonce) = (attempt.ours.qp, attempt.initiator.nonce());
        self.connected.insert(qp, nonce);
        self.nonces.insert(nonce, qp);
    }

    /// Records that the connection of this queue pair is over.
    pub fn forget(&mut self, qp: QpId) {
        if let Some(nonce) = self.connected.remove(&qp) {
            self.nonces.remove(&nonce);
        }
    }

    /// Whether there is neither an attempt nor a connection.
    pub fn is_empty(&self) -> bool {
        self.nonces.is_empty()
    }

    /// Handles a COOKIE, an ACCEPT or a REJECT.
    pub fn on_answer(&mut self, now: Time, from: impl Into<AddrPair>, answer: &Setup) -> Use {
        let from = from.into();
        let nonce = match answer {
            Setup::Cookie { nonce, .. } => *nonce,
            Setup::Accept(accept) => accept.nonce,
            Setup::Reject(reject) => reject.nonce,
            // The holder of the key opens a sealed packet and passes in its contents.
            Setup::Hello(_)
            | Setup::Connect(_)
            | Setup::SealedConnect(_)
            | Setup::SealedAccept(_) => return Use::None,
        };
        let qp = self.nonces.get(&nonce).copied();
        let Some((qp, attempt)) = qp.and_then(|qp| Some((qp, self.attempts.get_mut(&qp)?))) else {
            return on_late_answer(answer, qp.is_some());
        };
        let carrier = from.local.carrier;
        if attempt.initiator.nonce() != nonce {
            let is_it = |other: &ResponderAddr| {
                let is_there = other.to.ip() == from.remote.ip() && other.carrier == carrier;
                other.nonce == nonce && is_there
            };
            let may_turn = matches!(answer, Setup::Cookie { .. }) && !attempt.answered;
            let place = attempt.others.iter().position(is_it).filter(|_| may_turn);
            let late = place.and_then(|place| attempt.others.remove(place));
            let Some(late) = late else { return Use::None };
            let current = attempt.turn_to(now, late);
            attempt.others.push_back(current);
        }
        if attempt.carrier != carrier {
            return Use::None;
        }
        let is_elsewhere = from.remote.ip() != attempt.to.ip().to_canonical();
        match answer {
            Setup::Cookie { .. } if is_elsewhere => return self.follow(now, from.remote, qp),
            Setup::Accept(_) if is_elsewhere => return Use::None,
            Setup::Accept(_) if attempt.initiator.outcome(now).is_none() => {
                attempt.accepted_from = from;
            }
            _ => {}
        }
        attempt.initiator.on_setup(now, answer);
        attempt.answered = true;
        self.rearm(qp);
        Use::Taken
    }

    /// Follows a responder that answers from another address than was asked, like a host that is
    /// bound to all its addresses. The attempt continues there, once, with another nonce. Only a
    /// host that receives at the new address can return that nonce; the first nonce does not prove
    /// this. Otherwise a responder could make this end send to a third party.
    fn follow(&mut self, now: Time, to: SocketAddr, qp: QpId) -> Use {
        let Some(attempt) = self.attempts.get_mut(&qp) else { return Use::None };
        let Some(nonce) = attempt.spare_nonce.take() else { return Use::None };
        self.nonces.remove(&attempt.initiator.nonce());
        self.nonces.insert(nonce, qp);
        attempt.initiator.restart(now, nonce, attempt.ours);
        (attempt.to, attempt.answered) = (to, true);
        self.rearm(qp);
        Use::Taken
    }

    fn rearm(&mut self, qp: QpId) {
        let Some(attempt) = self.attempts.get_mut(&qp) else { return };
        self.due.remove(&(attempt.due, qp));
        attempt.due = attempt.due();
        self.due.insert((attempt.due, qp));
    }

    /// Returns the next step. Call until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<Step<D>> {
        loop {
            let (_, qp) = *self.due.first().filter(|(at, _)| *at <= now)?;
            let attempt = self.attempts.get_mut(&qp)?;
            let not_listening = ConnectError::Rejected(RejectReason::NotListening);
            if attempt.initiator.outcome(now).is_some_and(|it| it.err() == Some(not_listening)) {
                for gone in attempt.drop_carriers() {
                    self.nonces.remove(&gone.nonce);
                }
            }
            if let Some(outcome) = attempt.initiator.outcome(now)
                && attempt.is_worth_another(outcome)
            {
                self.give_up_address(now, qp);
                continue;
            }
            let is_over = attempt.initiator.outcome(now).is_some();
            if !is_over
                && !attempt.answered
                && now >= attempt.turn_at
                && let Some(next) = attempt.others.pop_front()
            {
                let current = attempt.turn_to(now, next);
                attempt.others.push_back(current);
            }
            if let Some(outcome) = attempt.initiator.outcome(now) {
                let outcome = outcome.cloned();
                return self.cancel(qp).map(|attempt| Step::Ended(Box::new(attempt), outcome));
            }
            if let Some(setup) = attempt.initiator.poll_transmit(now) {
                let local = LocalAddr::of(attempt.carrier);
                return Some(Step::Send(qp, AddrPair { remote: attempt.to, local }, setup));
            }
            self.rearm(qp);
        }
    }

    /// Time at which [`Initiators::poll`] has the next step.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Handles an answer to an attempt that is over.
fn on_late_answer(answer: &Setup, is_connected: bool) -> Use {
    match answer {
        Setup::Accept(_) if is_connected => Use::Taken,
        Setup::Accept(accept) => Use::Declined(decline(&accept.offer)),
        _ => Use::None,
    }
}

/// Returns the packet that informs a queue pair of the peer that the attempt which it has accepted
/// is over.
pub fn decline(theirs: &Offer) -> Control {
    let nothing = FinalAck { requests: theirs.psn, responses: theirs.psn, refusal: None };
    let (kind, from) = (ControlKind::Disconnect(nothing), QpId::default());
    Control { kind, qp: theirs.qp, from, token: theirs.token, stamp: 0 }
}

#[cfg(test)]
mod tests {
    use braid_wire::Reject;

    use super::*;
    use crate::setup::backlog::tests::connect;

    const QP: QpId = QpId::new(7);

    fn addr(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 4791))
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Returns an attempt to connect to a host with three addresses and the nonces 1 to 3, with a
    /// time-out of ten seconds.
    fn three_addresses() -> Initiators<()> {
        let ours = Offer { qp: QP, ..connect(0, 0).offer };
        let initiator = Initiator::new(at(0), 1, ours, Vec::new(), Duration::from_secs(10));
        let attempt = Attempt::new(at(0), ours, addr(1), initiator, 9, ());
        let mut initiators = Initiators::default();
        let terms = OfferTerms::from(&ours);
        let carrier = Carrier::default();
        let others = [2, 3].map(|n| ResponderAddr { to: addr(n), carrier, nonce: n.into(), terms });
        initiators.begin(attempt.with_others(others));
        initiators
    }

    /// Returns an attempt to connect to two carriers of an address, with the nonces 1 and 2.
    fn two_carriers() -> Initiators<()> {
        let ours = Offer { qp: QP, mtu: 1400, ..connect(0, 0).offer };
        let initiator = Initiator::new(at(0), 1, ours, Vec::new(), Duration::from_secs(10));
        let attempt = Attempt::new(at(0), ours, addr(1), initiator, 9, ());
        let terms = OfferTerms { mtu: 60_000, ..OfferTerms::from(&ours) };
        let other = ResponderAddr { to: addr(1), carrier: Carrier(1), nonce: 2, terms };
        let mut initiators = Initiators::default();
        initiators.begin(attempt.with_others([other]));
        initiators
    }

    fn by(carrier: u8) -> AddrPair {
        AddrPair { remote: addr(1), local: LocalAddr::of(Carrier(carrier)) }
    }

    /// Runs until then. Returns the destinations of packets, each once in a row.
    fn asked(initiators: &mut Initiators<()>, until: Time) -> Vec<SocketAddr> {
        let mut asked = Vec::new();
        while let Some(now) = initiators.next_timeout().filter(|due| *due <= until) {
            match initiators.poll(now) {
                Some(Step::Send(_, to, _)) => asked.push(to.remote),
                Some(Step::Ended(..)) => break,
                None => {}
            }
        }
        asked.dedup();
        asked
    }

    /// Returns the next packet at that time and its destination.
    fn sent(initiators: &mut Initiators<()>, now: Time) -> (AddrPair, Setup) {
        match initiators.poll(now) {
            Some(Step::Send(_, to, setup)) => (to, setup),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_carrier_has_its_terms() {
        let mut it = two_carriers();
        asked(&mut it, at(240));
        assert_eq!(sent(&mut it, at(250)).0, by(1));
        assert_eq!(it.on_answer(at(251), by(0), &cookie(2)), Use::None, "by another carrier");
        assert_eq!(it.on_answer(at(251), by(1), &cookie(2)), Use::Taken);
        let (to, Setup::Connect(connect)) = sent(&mut it, at(251)) else { panic!("a cookie came") };
        assert_eq!((to, connect.offer.mtu), (by(1), 60_000));
        assert_eq!(it.get_mut(QP).map(|attempt| attempt.ours.mtu), Some(60_000));
    }

    #[test]
    fn late_answer_by_the_first_carrier_restores_its_terms() {
        let mut it = two_carriers();
        asked(&mut it, at(240));
        assert_eq!(sent(&mut it, at(250)).0, by(1));
        assert_eq!(it.on_answer(at(260), by(0), &cookie(1)), Use::Taken);
        let (to, Setup::Connect(connect)) = sent(&mut it, at(260)) else { panic!("a cookie came") };
        assert_eq!((to, connect.offer.mtu), (by(0), 1400));
    }

    #[test]
    fn address_without_listener_is_not_asked_by_another_carrier() {
        let mut it = two_carriers();
        asked(&mut it, at(0));
        let reject = Reject { nonce: 1, reason: RejectReason::NotListening };
        assert_eq!(it.on_answer(at(1), by(0), &Setup::Reject(reject)), Use::Taken);
        let step = it.poll(at(1));
        assert!(matches!(step, Some(Step::Ended(_, Err(ConnectError::Rejected(_))))), "{step:?}");
        assert!(it.is_empty());
    }

    fn cookie(nonce: u64) -> Setup {
        Setup::Cookie { nonce, cookie: 5, key_id: 0, len: braid_wire::BASE_DATAGRAM as u16 }
    }

    #[test]
    fn addresses_have_turns_until_one_answers() {
        let mut it = three_addresses();
        assert_eq!(asked(&mut it, at(800)), [1, 2, 3, 1].map(addr));
        assert_eq!(it.on_answer(at(801), addr(1), &cookie(1)), Use::Taken);
        assert_eq!(asked(&mut it, at(3_000)), [addr(1)]);
    }

    #[test]
    fn late_answer_is_accepted() {
        let mut it = three_addresses();
        assert_eq!(asked(&mut it, at(300)), [1, 2].map(addr));
        assert_eq!(
            it.on_answer(at(310), addr(9), &cookie(1)),
            Use::None,
            "it was not told that nonce"
        );
        assert_eq!(it.on_answer(at(310), addr(1), &cookie(1)), Use::Taken);
        assert_eq!(it.on_answer(at(311), addr(2), &cookie(2)), Use::None, "it is settled");
        assert_eq!(asked(&mut it, at(3_000)), [addr(1)]);
    }

    #[test]
    fn refusing_address_is_not_asked_again() {
        let mut it = three_addresses();
        assert_eq!(asked(&mut it, at(10)), [addr(1)]);
        let reject = Reject { nonce: 1, reason: RejectReason::NotListening };
        assert_eq!(it.on_answer(at(10), addr(1), &Setup::Reject(reject)), Use::Taken);
        assert_eq!(asked(&mut it, at(100)), [addr(2)]);
        assert!(it.give_up_address(at(100), QP));
        assert_eq!(asked(&mut it, at(3_000)), [addr(3)]);
        assert!(!it.give_up_address(at(3_000), QP), "it is the last");
        let reject = Reject { nonce: 3, reason: RejectReason::Refused };
        it.on_answer(at(3_001), addr(3), &Setup::Reject(reject));
        let Some(Step::Ended(attempt, Err(ConnectError::Rejected(_)))) = it.poll(at(3_001)) else {
            panic!("it was refused");
        };
        assert_eq!(attempt.asked, addr(1));
        assert!(it.is_empty());
    }
}
