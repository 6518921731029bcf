//! How long a peer may be silent.

use std::time::Duration;

/// A peer that was slow of late, as one on a machine with far more to do than it can, may take this many times as long again ..
const SLOW_ANSWERS: u32 = 3;
/// .. but at most this many times as long as one that was not.
const MOST_PATIENCE: u32 = 4;

/// How long who waits for a peer waits; `limit`: for one whose answers come soon, `slowest`: how long its answers have taken at
/// most, from just before it fell silent on.
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
