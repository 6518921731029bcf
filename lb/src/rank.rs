//! How paths compare: what `min-rtt` (the subflow of lowest smoothed round-trip time that has window, as
//! MPTCP) and `two-choice` (the better of two random paths, UCCL) choose by.
//!
//! A path has no window of its own here: the controller's is shared by all paths. So the round-trip time
//! is weighed with what is already under way on the path, which spreads the load as full windows do, and
//! as finely as it is chosen. That is our reading; without it every batch would go to the path that was
//! fastest last.

use std::time::Duration;

use braid_wire::Time;

use crate::path::Path;

/// A round-trip time older than this is halved, and again after as long: a path that was slow is used
/// again, the sooner the less slow it was.
const STALE_AFTER: Duration = Duration::from_millis(250);
/// Where measured paths begin among the ranks.
const MEASURED: u64 = 1 << 62;
/// `two-choice` draws again where the better of two ranks above so many times the best of all paths:
/// of many paths over one slow link two are drawn too often.
pub(crate) const FAR_WORSE: u64 = 4;

impl Path {
    /// The smaller, the better: unmeasured paths, the emptiest first; then by the smoothed round-trip time
    /// times the packets that would be under way.
    pub(crate) fn rank(&self) -> u64 {
        match self.rtt_ns {
            None => self.in_flight.into(),
            Some(rtt) => {
                let weighed = rtt.saturating_mul(u64::from(self.in_flight) + 1);
                MEASURED | weighed.min(MEASURED - 1)
            }
        }
    }

    /// Halves a round-trip time that is too old. Returns whether it was.
    pub(crate) fn doubt(&mut self, now: Time) -> bool {
        let Some(rtt) = self.rtt_ns.filter(|_| now - self.measured_at > STALE_AFTER) else {
            return false;
        };
        (self.rtt_ns, self.measured_at, self.doubted) = (Some(rtt / 2), now, true);
        true
    }
}

/// Whether `rank` is so much worse than the best that another draw is worth it.
pub(crate) fn is_far_worse(rank: u64, best: u64) -> bool {
    let time = |rank: u64| rank & (MEASURED - 1);
    rank >= MEASURED && (best < MEASURED || time(rank) / FAR_WORSE > time(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(us: u64, in_flight: u32) -> Path {
        let mut path = Path { in_flight, ..Path::default() };
        path.rtt_ns = Some(us * 1000);
        path
    }

    #[test]
    fn ranks_unmeasured_paths_first_then_by_weighed_round_trip() {
        let busy = Path { in_flight: 3, ..Path::default() };
        // 50 us x 1, 60 x 1, 50 x 3, 60 x 5.
        let weighed = [measured(50, 0), measured(60, 0), measured(50, 2), measured(60, 4)];
        let ranks: Vec<u64> =
            [Path::default(), busy].iter().chain(&weighed).map(|path| path.rank()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn far_worse_is_four_times_or_measured_against_unmeasured() {
        let rank = |us| measured(us, 0).rank();
        assert!(is_far_worse(rank(500), rank(100)) && !is_far_worse(rank(400), rank(100)));
        assert!(is_far_worse(rank(1), Path::default().rank()));
        assert!(!is_far_worse(Path::default().rank(), rank(1)));
    }
}
