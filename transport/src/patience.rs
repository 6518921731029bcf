//! The silence that a peer is allowed.

use std::time::Duration;

/// A peer that was slow of late, for example on an overloaded machine, may take this many times as
/// long again ...
const SLOW_ANSWERS: u32 = 3;
/// .. but at most this many times as long as one that was not.
const MOST_PATIENCE: u32 = 4;

/// The time to wait for a peer. `limit`: for a peer that answers quickly. `slowest`: the longest
/// delay of its answers, from just before it fell silent on.
pub(crate) fn patience(limit: Duration, slowest: Duration) -> Duration {
    let slow = slowest.saturating_mul(SLOW_ANSWERS);
    limit.max(slow.min(limit.saturating_mul(MOST_PATIENCE)))
}

/// A peer whose host says that nobody receives at its port has this long to show that it is there,
/// ..
const SHORTEST_DOUBT: Duration = Duration::from_millis(150);
/// .. or so many round trips.
const DOUBT_TRIPS: u32 = 2;

/// The time in which a PING to a peer that is doubted has to be answered. `round_trip`: a long one
/// to that peer.
pub(crate) fn unanswered_for(round_trip: Duration) -> Duration {
    SHORTEST_DOUBT.max(round_trip.saturating_mul(DOUBT_TRIPS))
}
