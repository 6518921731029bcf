//! The rank of a path, by which `min-rtt` and `two-choice` compare paths.
//!
//! `min-rtt` takes the subflow with the lowest smoothed round-trip time whose window is not full,
//! as MPTCP does. `two-choice` takes the better of two random paths, as UCCL does.
//!
//! Here all paths share the controller's window. The rank therefore multiplies the round-trip time
//! by the packets in flight on the path, which distributes the load as full windows do. This is our
//! interpretation. Without it, every batch would take the path that was fastest last.

use std::time::Duration;

use braid_wire::Time;

use crate::path::{Path, SmoothedRtt};

/// Age at which a round-trip time is halved, repeatedly. A slow path is thus tried again, and
/// earlier if it was less slow.
const STALE_AFTER: Duration = Duration::from_millis(250);
/// Lowest rank of a measured path.
const MEASURED: u64 = 1 << 62;
/// `two-choice` draws again if the better of two ranks exceeds the best of all paths by this
/// factor. Otherwise it draws two of many paths on one slow link too often.
pub(crate) const FAR_WORSE: u64 = 4;

impl Path {
    /// Returns the rank. A smaller rank is better.
    ///
    /// Unmeasured paths come first, the emptiest of them foremost. The others are ordered by the
    /// smoothed round-trip time times the number of packets in flight including the next one.
    pub(crate) fn rank(&self) -> u64 {
        match self.rtt.nanos() {
            None => self.in_flight.into(),
            Some(rtt) => {
                let weighed = rtt.saturating_mul(u64::from(self.in_flight) + 1);
                MEASURED | weighed.min(MEASURED - 1)
            }
        }
    }

    /// Halves a round-trip time that is too old. Returns whether it did.
    pub(crate) fn doubt(&mut self, now: Time) -> bool {
        let is_old = now - self.measured_at > STALE_AFTER;
        let Some(rtt) = self.rtt.nanos().filter(|_| is_old) else {
            return false;
        };
        (self.rtt, self.measured_at) = (SmoothedRtt::from_nanos(rtt / 2), now);
        true
    }
}

/// Returns whether `rank` is so much worse than the best rank that another draw pays off.
pub(crate) fn is_far_worse(rank: u64, best: u64) -> bool {
    let time = |rank: u64| rank & (MEASURED - 1);
    rank >= MEASURED && (best < MEASURED || time(rank) / FAR_WORSE > time(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(us: u64, in_flight: u32) -> Path {
        let mut path = Path { in_flight, ..Path::NEW };
        path.rtt = SmoothedRtt::from_nanos(us * 1000);
        path
    }

    #[test]
    fn ranks_unmeasured_paths_first_then_by_weighed_round_trip() {
        let busy = Path { in_flight: 3, ..Path::NEW };
        // 50 us x 1, 60 x 1, 50 x 3, 60 x 5.
        let weighed = [measured(50, 0), measured(60, 0), measured(50, 2), measured(60, 4)];
        let ranks: Vec<u64> =
            [Path::NEW, busy].iter().chain(&weighed).map(|path| path.rank()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn far_worse_is_four_times_or_measured_against_unmeasured() {
        let rank = |us| measured(us, 0).rank();
        assert!(is_far_worse(rank(500), rank(100)) && !is_far_worse(rank(400), rank(100)));
        assert!(is_far_worse(rank(1), Path::NEW.rank()));
        assert!(!is_far_worse(Path::NEW.rank(), rank(1)));
    }
}
