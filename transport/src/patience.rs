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
