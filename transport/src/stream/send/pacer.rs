//! The pacer: the time at which the next segment may leave at a given rate.
//!
//! Segments leave in bursts of one batch, so that a driver can send them with one system call. Then
//! nothing leaves for the time that the burst takes at the given rate. With batches of one segment
//! the spacing is exact. Time is counted in picoseconds: at 800 Gb/s a packet of 4 KiB takes 41.58
//! ns, and rounding would change the rate by one percent.

use braid_wire::Time;

const PS_PER_NS: u128 = 1_000;
const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// The pacing state of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    /// Time at which the segments sent so far are paid for, in picoseconds of [`Time`].
    due: u128,
    /// Number of segments that may leave before that.
    left: u32,
    /// Whether only the rate holds the stream back.
    held: bool,
}

impl Pacer {
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.left > 0 || self.due <= picoseconds(now)
    }

    /// Charges segments with this many bytes in total at `bits_per_second`, in bursts of `burst`
    /// segments.
    pub(crate) fn on_sent(
        &mut self,
        now: Time,
        (bytes, segments): (u64, u32),
        bits_per_second: u64,
        burst: impl FnOnce() -> u32,
    ) {
        let cost = u128::from(bytes * 8 * PS_PER_SECOND / bits_per_second.max(1));
        let now = picoseconds(now);
        let goes_on = self.held && self.left > 0;
        if self.due <= now && !goes_on {
            let burst = burst();
            // A late driver catches up, by one burst at most. A stream that had nothing to send
            // gets no credit, but `Time` cannot distinguish that from being less than a nanosecond
            // late.
            let each = cost / u128::from(segments.max(1));
            let credit = if self.held { each * u128::from(burst) } else { 0 };
            if now - self.due >= PS_PER_NS {
                self.due = self.due.max(now.saturating_sub(credit));
            }
            self.left = burst;
        }
        self.due += cost;
        self.left = self.left.saturating_sub(segments);
    }

    /// Number of segments that may leave at once.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Sets whether only the rate holds the stream back.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Time at which the next segment may leave, if one is held back.
    pub(crate) fn opens_at(&self) -> Option<Time> {
        let ns = u64::try_from(self.due.div_ceil(PS_PER_NS)).unwrap_or(u64::MAX);
        self.held.then_some(Time::from_nanos(ns))
    }
}

fn picoseconds(time: Time) -> u128 {
    u128::from(time.as_nanos()) * PS_PER_NS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GBIT: u64 = 1_000_000_000;

    fn ns(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    /// Sends as soon as allowed, but `late` ns after each deadline, and returns the departure
    /// times.
    fn departures(pacer: &mut Pacer, rate: u64, burst: u32, late: u64, count: usize) -> Vec<u64> {
        let mut now = ns(1_000_000);
        let mut departures = Vec::new();
        while departures.len() < count {
            if pacer.is_open(now) {
                pacer.on_sent(now, (4158, 1), rate, || burst);
                departures.push(now.as_nanos() - 1_000_000);
            } else {
                pacer.hold(true);
                now = pacer.opens_at().expect("it is held") + Duration::from_nanos(late);
            }
        }
        departures
    }

    #[test]
    fn single_segments_keep_their_distance_to_the_picosecond() {
        let left = departures(&mut Pacer::default(), 800 * GBIT, 1, 0, 1001);
        assert_eq!(left[..5], [0, 42, 84, 125, 167]); // multiples of 41.58 ns, rounded up
        assert_eq!(left[1000], 41_580);
    }

    #[test]
    fn batches_leave_whole() {
        let left = departures(&mut Pacer::default(), 8 * GBIT, 4, 0, 9);
        assert_eq!(left, [0, 0, 0, 0, 16_632, 16_632, 16_632, 16_632, 33_264]);
    }

    #[test]
    fn a_driver_that_is_always_late_keeps_the_rate() {
        let left = departures(&mut Pacer::default(), 8 * GBIT, 4, 5_000, 4001);
        assert_eq!(left[4000], 4158 * 4000 + 5_000);
    }

    #[test]
    fn idle_time_earns_no_burst() {
        let mut pacer = Pacer::default();
        departures(&mut pacer, 8 * GBIT, 2, 0, 2);
        pacer.hold(false);
        let later = ns(900_000_000);
        (0..2).for_each(|_| pacer.on_sent(later, (4158, 1), 8 * GBIT, || 2));
        assert!(!pacer.is_open(later + Duration::from_nanos(2 * 4158 - 1)));
        assert!(pacer.is_open(later + Duration::from_nanos(2 * 4158)));
    }
}
