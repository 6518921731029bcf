//! Time limits for a silent peer.

use std::time::Duration;

/// Multiple of its slowest recent round trip that a slow peer is given, for example on an
/// overloaded machine, ...
const SLOW_ANSWERS: u32 = 3;
/// ... and the upper limit, as a multiple of the time for a peer that is not slow.
const MOST_PATIENCE: u32 = 4;

/// Returns the time to wait for a peer. `limit`: the time for a peer that answers quickly.
/// `slowest`: the longest delay of its answers since just before it fell silent.
pub(crate) fn patience(limit: Duration, slowest: Duration) -> Duration {
    let slow = slowest.saturating_mul(SLOW_ANSWERS);
    limit.max(slow.min(limit.saturating_mul(MOST_PATIENCE)))
}

/// Minimum time in which a peer has to answer after its host has reported that its port is closed
/// (ICMP port unreachable), ...
const SHORTEST_DOUBT: Duration = Duration::from_millis(150);
/// ... or this number of round trips, if that is longer.
const DOUBT_TRIPS: u32 = 2;

/// Returns the time in which such a peer has to answer a PING. `round_trip`: a long round trip to
/// that peer.
pub(crate) fn unanswered_for(round_trip: Duration) -> Duration {
    SHORTEST_DOUBT.max(round_trip.saturating_mul(DOUBT_TRIPS))
}
