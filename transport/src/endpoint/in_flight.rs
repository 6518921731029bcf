//! Bytes in flight to the peer, and the free space in its sockets.
//!
//! Bytes on the wire do not occupy the peer's socket. Their number is about the bytes in flight,
//! times the share of the propagation delay in the round trip. On a short wire it is zero: there, a
//! full socket loses a whole window at once. On a long wire they are counted several times, because
//! queues that others fill also lengthen the round trip, and controlling queues is the controllers'
//! task.

use std::time::Duration;

use braid_wire::{MAX_DATA_HEADER_LEN, RailId, Time};

use crate::qp::ConnectedQp;
use crate::stream::per_rail::RailBytes;

/// Upper limit of a segment's bytes on the wire.
const LONGEST_SEGMENT: u64 = u16::MAX as u64 + MAX_DATA_HEADER_LEN as u64;

/// Part of a round trip that the hosts may take, with the peer's thread perhaps asleep.
const HOSTS: Duration = Duration::from_micros(250);
/// Multiple of the propagation delay up to which a round trip is attributed to the network. The
/// rest counts as the peer's queue.
const MOST_QUEUES: u32 = 4;

/// Bytes of all queue pairs, by rail. Invariant: `left` follows from `bytes`, `buffer` and the
/// rounds.
#[derive(Debug)]
pub(super) struct InFlight {
    bytes: RailBytes,
    left: RailBytes,
    /// Capacity of the peer's socket of each rail, in bytes.
    buffer: u64,
    /// The round of the first rail. It is apart, because most peers have one rail.
    first: Round,
    /// The rounds of the other rails.
    further: Vec<Round>,
}

/// A round of one round trip: once something sent at its start is acknowledged, all bytes in flight
/// at that time have arrived.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Allowance for bytes on the wire, from the round before.
    wire: u64,
    /// The shortest round trip measured on this rail.
    shortest: Duration,
    began: Time,
    in_flight: u64,
}

impl Round {
    const FIRST: Round =
        Round { wire: 0, shortest: Duration::MAX, began: Time::ZERO, in_flight: 0 };

    /// Ends the round, and begins the next one with `in_flight` bytes.
    #[inline(never)] // once per round trip, and never on a short wire
    fn end(&mut self, now: Time, round_trip: Duration, in_flight: u64) {
        let delay = self.shortest.saturating_sub(HOSTS).saturating_mul(MOST_QUEUES);
        let wire = u128::from(self.in_flight) * delay.as_nanos() / round_trip.as_nanos().max(1);
        self.wire = u64::try_from(wire).unwrap_or(u64::MAX);
        (self.began, self.in_flight) = (now, in_flight);
    }
}

impl InFlight {
    /// `buffer`: capacity of the peer's socket of each rail, in bytes.
    pub(super) fn new(buffer: u64) -> Self {
        let (none, first, further) = (RailBytes::NOTHING, Round::FIRST, Vec::new());
        let mut empty = InFlight { bytes: none, left: none, buffer, first, further };
        empty.left[RailId::FIRST] = empty.left_of(RailId::FIRST, 0);
        empty
    }

    pub(super) fn use_rails(&mut self, count: usize) {
        for rail in (self.rails()..count).map(RailId::new) {
            self.further.push(Round::FIRST);
            self.left[rail] = self.left_of(rail, 0);
        }
    }

    #[inline]
    fn rails(&self) -> usize {
        1 + self.further.len()
    }

    #[inline]
    fn round(&self, rail: RailId) -> Option<&Round> {
        match rail.get() {
            0 => Some(&self.first),
            rail => self.further.get(rail - 1),
        }
    }

    #[inline]
    fn round_mut(&mut self, rail: RailId) -> Option<&mut Round> {
        match rail.get() {
            0 => Some(&mut self.first),
            rail => self.further.get_mut(rail - 1),
        }
    }

    /// Bytes in flight, by rail.
    #[inline]
    pub(super) fn bytes(&self) -> &RailBytes {
        &self.bytes
    }

    /// Bytes that may still be sent on each rail.
    #[inline]
    pub(super) fn left(&self) -> &RailBytes {
        &self.left
    }

    /// Bytes left on a rail. An idle socket takes one segment, however small its buffer is.
    #[inline]
    fn left_of(&self, rail: RailId, in_flight: u64) -> u64 {
        match in_flight {
            0 => self.most_on(rail).max(LONGEST_SEGMENT),
            in_flight => self.most_on(rail).saturating_sub(in_flight),
        }
    }

    /// Capacity of the peer's socket plus the allowance for the wire.
    #[inline]
    pub(super) fn most_on(&self, rail: RailId) -> u64 {
        self.buffer.saturating_add(self.round(rail).map_or(0, |round| round.wire))
    }

    /// Takes a round-trip sample, without the delay at the peer.
    #[inline]
    pub(super) fn on_round_trip(&mut self, now: Time, rail: RailId, round_trip: Duration) {
        let in_flight = self.bytes[rail];
        let Some(round) = self.round_mut(rail) else { return };
        round.shortest = round.shortest.min(round_trip);
        if round.shortest > HOSTS && now - round.began >= round_trip {
            round.end(now, round_trip, in_flight);
            self.left[rail] = self.left_of(rail, in_flight);
        }
    }

    /// Updates the bytes in flight of a queue pair, whose `share` was counted before.
    #[inline]
    pub(super) fn follow(&mut self, qp: &ConnectedQp, share: &mut RailBytes) {
        self.change(RailId::FIRST, &mut share[RailId::FIRST], qp.in_flight(RailId::FIRST));
        for rail in (1..self.rails()).map(RailId::new) {
            self.change(rail, &mut share[rail], qp.in_flight(rail));
        }
    }

    /// Subtracts the share of a queue pair that is gone.
    pub(super) fn forget(&mut self, mut share: RailBytes) {
        for rail in (0..self.rails()).map(RailId::new) {
            self.change(rail, &mut share[rail], 0);
        }
    }

    #[inline]
    fn change(&mut self, rail: RailId, share: &mut u64, now: u64) {
        if *share != now {
            self.bytes[rail] = self.bytes[rail] + now - *share;
            self.left[rail] = self.left_of(rail, self.bytes[rail]);
            *share = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 200_000;
    const RAIL: RailId = RailId::FIRST;

    /// Returns the limit after ten round trips of that length in which all of it was used.
    fn after(round_trip: Duration, shortest: Duration) -> u64 {
        let mut in_flight = InFlight::new(BUFFER);
        let mut now = Time::from_nanos(1_000_000_000);
        in_flight.on_round_trip(now, RAIL, shortest);
        for _ in 0..10 {
            in_flight.bytes[RAIL] = in_flight.most_on(RAIL).min(10_000_000);
            now += round_trip;
            in_flight.on_round_trip(now, RAIL, round_trip);
        }
        in_flight.most_on(RAIL)
    }

    #[test]
    fn short_path_holds_one_buffer() {
        for round_trip in [20, 250, 5_000].map(Duration::from_micros) {
            assert_eq!(after(round_trip, Duration::from_micros(250)), BUFFER);
        }
    }

    #[test]
    fn long_path_holds_more_than_a_buffer() {
        let ms = Duration::from_millis;
        assert!(after(ms(50), ms(50)) > 10_000_000);
        assert!(after(ms(100), ms(50)) > 10_000_000, "others have filled a queue");
        let bounded = after(ms(400), ms(50));
        assert!((BUFFER..3 * BUFFER).contains(&bounded), "{bounded}");
    }

    #[test]
    fn limit_follows_bytes_in_flight_one_round_trip_ago() {
        let mut in_flight = InFlight::new(BUFFER);
        let (ms, began) = (Duration::from_millis, Time::from_nanos(1_000_000_000));
        in_flight.bytes[RAIL] = BUFFER;
        in_flight.on_round_trip(began, RAIL, ms(10));
        assert_eq!(in_flight.most_on(RAIL), BUFFER, "nothing is known of a round trip before");
        in_flight.bytes[RAIL] = 0;
        in_flight.on_round_trip(began + ms(9), RAIL, ms(10));
        assert_eq!(in_flight.most_on(RAIL), BUFFER);
        in_flight.on_round_trip(began + ms(10), RAIL, ms(10));
        assert!(in_flight.most_on(RAIL) > 4 * BUFFER);
    }
}
