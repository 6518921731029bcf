//! The credit of a subflow whose controller sends by credit of the receiver
//! ([`braid_cc::CreditTerms`]).
//!
//! All numbers of bytes are totals since the connection began. The subflow may send until `sent`
//! reaches what is granted and what it may send without credit. Long before, it tells the receiver
//! its target. If no grant comes while it has no credit left, it repeats that, in case a request or
//! a grant was lost.

use std::time::Duration;

use braid_cc::CreditTerms;
use braid_wire::{CreditNeed, Time};

/// Bandwidth-delay products between `sent` and the target below which the subflow asks again. A
/// request and the first grant for it take a round trip.
const LEAST_AHEAD: u64 = 2;
/// Bandwidth-delay products between `sent` and the target of a request, at most. Credit that a
/// subflow cannot use at once is lost for others, so there is a limit.
const MOST_AHEAD: u64 = 3;
/// Number of requests for each bandwidth-delay product sent, at most.
const REQUESTS: u64 = 4;
/// Doublings of the time after which a request is repeated, at most.
const MAX_DOUBLINGS: u32 = 4;

/// The state of a subflow's credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GateState {
    /// A segment may leave.
    Open,
    /// A request leaves before anything else does.
    Asks,
    /// Nothing may leave before the next grant.
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct CreditGate {
    terms: CreditTerms,
    /// Bytes of a full packet on the wire.
    packet: u64,
    sent: u64,
    lost: u64,
    granted: u64,
    unsolicited: u64,
    /// The target of the last request.
    target: u64,
    /// `sent` and `lost` at the last request.
    told: (u64, u64),
    /// The value of `sent` from which on the next request may leave.
    ask_from: u64,
    /// Requests since the last grant.
    tries: u32,
    /// Time at which the last request is repeated if no grant has come.
    repeat_at: Time,
    /// Whether only credit holds the stream back.
    is_held: bool,
}

impl CreditGate {
    pub(crate) fn new(terms: CreditTerms, packet: u64) -> Self {
        CreditGate {
            terms,
            packet: packet.max(1),
            sent: 0,
            lost: 0,
            granted: 0,
            unsolicited: terms.unsolicited,
            target: 0,
            told: (0, 0),
            ask_from: packet,
            tries: 0,
            repeat_at: Time::ZERO,
            is_held: false,
        }
    }

    /// Takes over the controller's present terms.
    pub(crate) fn follow(&mut self, terms: CreditTerms) {
        self.terms = terms;
    }

    fn allowed(&self) -> u64 {
        self.granted.saturating_add(self.unsolicited)
    }

    /// Decides on a segment that waits. The first packet after a pause leaves without a request, so
    /// that a message of one packet costs none.
    pub(crate) fn gate(&self, now: Time) -> GateState {
        let product = self.terms.unsolicited.max(self.packet);
        let covered = self.target.max(self.allowed());
        let is_short = covered < self.sent.saturating_add(LEAST_AHEAD * product);
        if is_short && self.sent >= self.ask_from {
            return GateState::Asks;
        }
        if self.sent < self.allowed() {
            return GateState::Open;
        }
        // Nothing is known to be on its way that covers this segment, or it takes too long.
        let is_untold = self.told != (self.sent, self.lost) && self.target <= self.sent;
        if is_untold || now >= self.repeat_at { GateState::Asks } else { GateState::Closed }
    }

    /// Number of segments that may leave. At least 1 while the gate is open.
    pub(crate) fn segments_left(&self) -> u32 {
        let left = self.allowed().saturating_sub(self.sent).div_ceil(self.packet);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    pub(crate) fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// Handles a grant. Returns whether it is new.
    pub(crate) fn on_grant(&mut self, granted: u64) -> bool {
        let is_new = granted > self.granted;
        if is_new {
            (self.granted, self.tries) = (granted, 0);
        }
        is_new
    }

    /// Handles that everything is acknowledged and nothing waits: the next bytes may leave without
    /// credit.
    pub(crate) fn on_idle(&mut self) {
        let free = self.sent.saturating_add(self.terms.unsolicited);
        self.unsolicited = self.unsolicited.max(free.saturating_sub(self.granted));
        self.ask_from = self.sent + self.packet;
    }

    /// Bytes beyond which the length of the backlog does not matter to a request.
    pub(crate) fn longest_backlog(&self) -> u64 {
        MOST_AHEAD * self.terms.unsolicited.max(self.packet)
    }

    /// Returns the credit that the subflow knows of, and its need, for a request that leaves now.
    /// `backlog`: bytes that wait, headers included; `patience`: a long time for an answer.
    pub(crate) fn request(
        &mut self,
        now: Time,
        backlog: u64,
        patience: Duration,
    ) -> (u64, CreditNeed) {
        let product = self.terms.unsolicited.max(self.packet);
        let backlog = backlog.min(self.longest_backlog());
        self.target = self.target.max(self.sent + backlog);
        self.told = (self.sent, self.lost);
        self.ask_from = self.sent + (product / REQUESTS).max(self.packet);
        self.repeat_at = now + patience * (1 << self.tries.min(MAX_DOUBLINGS));
        self.tries = self.tries.saturating_add(1);
        let need = CreditNeed {
            bits_per_second: self.terms.bits_per_second,
            target: self.target,
            unsolicited: self.unsolicited,
            lost: self.lost,
        };
        (self.granted, need)
    }

    /// Sets whether only credit holds the stream back.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Time at which the request is repeated, if credit holds the stream back.
    pub(crate) fn repeats_at(&self) -> Option<Time> {
        (self.is_held && self.sent >= self.allowed()).then_some(self.repeat_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1000;
    /// A bandwidth-delay product of ten packets.
    const TERMS: CreditTerms =
        CreditTerms { bits_per_second: 8_000_000_000, unsolicited: 10 * PACKET };
    const PATIENCE: Duration = Duration::from_micros(100);

    fn us(us: u64) -> Time {
        Time::from_nanos(1000 * us)
    }

    /// Sends packets while the gate lets them pass. Returns how many.
    fn send(credit: &mut CreditGate, now: Time, most: u64) -> u64 {
        let mut sent = 0;
        while sent < most && credit.gate(now) == GateState::Open {
            credit.on_sent(PACKET);
            sent += 1;
        }
        sent
    }

    #[test]
    fn the_first_packet_needs_no_request_and_the_first_window_no_grant() {
        let mut credit = CreditGate::new(TERMS, PACKET);
        assert_eq!((send(&mut credit, us(0), 99), credit.gate(us(0))), (1, GateState::Asks));
        let (granted, need) = credit.request(us(0), 99 * PACKET, PATIENCE);
        assert_eq!((granted, need.target, need.unsolicited), (0, 31 * PACKET, 10 * PACKET));
        assert_eq!(send(&mut credit, us(0), 99), 9);
        assert_eq!(credit.gate(us(99)), GateState::Closed);
        assert!(credit.on_grant(4 * PACKET) && !credit.on_grant(3 * PACKET), "grants are totals");
        assert_eq!((credit.segments_left(), send(&mut credit, us(99), 99)), (4, 2));
        assert_eq!(
            credit.gate(us(99)),
            GateState::Asks,
            "the target is less than two products ahead"
        );
    }

    #[test]
    fn a_request_without_an_answer_is_repeated_less_and_less_often() {
        let mut credit = CreditGate::new(TERMS, PACKET);
        credit.on_sent(10 * PACKET);
        let mut now = us(0);
        for wait in [100, 200, 400, 800, 1600, 1600] {
            assert_eq!(credit.gate(now), GateState::Asks);
            credit.request(now, 99 * PACKET, PATIENCE);
            credit.hold(true);
            assert_eq!(credit.repeats_at(), Some(now + Duration::from_micros(wait)));
            assert_eq!(credit.gate(now + Duration::from_micros(wait - 1)), GateState::Closed);
            now += Duration::from_micros(wait);
        }
    }

    #[test]
    fn a_loss_makes_a_new_request_due_where_nothing_else_is_expected() {
        let mut credit = CreditGate::new(TERMS, PACKET);
        credit.on_sent(9 * PACKET);
        credit.request(us(0), PACKET, PATIENCE);
        credit.on_sent(PACKET);
        credit.on_lost(PACKET);
        assert_eq!(credit.gate(us(1)), GateState::Asks);
        let (_, need) = credit.request(us(1), PACKET, PATIENCE);
        assert_eq!((need.target, need.lost), (11 * PACKET, PACKET));
        assert_eq!(credit.gate(us(2)), GateState::Closed);
    }

    #[test]
    fn a_pause_gives_a_first_window_again() {
        let mut credit = CreditGate::new(TERMS, PACKET);
        credit.on_sent(10 * PACKET);
        credit.request(us(0), 30 * PACKET, PATIENCE);
        credit.on_grant(30 * PACKET);
        credit.on_sent(25 * PACKET);
        credit.on_idle();
        assert_eq!(credit.segments_left(), 10, "five of them are granted");
        credit.on_idle();
        assert_eq!(credit.segments_left(), 10);
    }
}
