//! How much each path may carry, and how paths compare: what `min-rtt` (the subflow of lowest smoothed
//! round-trip time that has window, as MPTCP) and `two-choice` (the better of two random paths, UCCL)
//! choose by. Without a window every train would go to the one path that was fastest last.
//!
//! Neither source says how a window of a path behaves without a congestion control of its own; the rules
//! here are ours. They assume that a path which delivers much later than the fastest has a queue.

use std::time::Duration;

use braid_wire::Time;

use crate::path::{Path, nanos};

/// Trains that fit a window at first.
const START: u32 = 2;
/// Most packets in a window: far beyond any path, so that sums cannot overflow.
const MAX: u32 = 1 << 20;
/// A round-trip time up to this many halves of the lowest means that there is room ..
const ROOM_HALVES: u64 = 3;
/// .. and beyond that plus this slack (scheduling, interrupts), nanoseconds, that there is a queue.
const SLACK_NS: u64 = 100_000;

/// Packets that may be in flight on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// `None`: as at first.
    size: Option<u32>,
    /// Packets towards the next increase by one.
    credit: u32,
    /// The last cut; before the first, growth is exponential.
    cut_at: Option<Time>,
}

impl Window {
    /// Its size in packets, at least one `train`.
    pub(crate) fn size(&self, train: u32) -> u32 {
        self.size.unwrap_or(train.saturating_mul(START)).max(train).min(MAX)
    }

    /// `packets` arrived while there was room: as slow start up to the first cut, then one per window.
    fn grow(&mut self, packets: u32, train: u32) {
        let size = self.size(train);
        let grown = if self.cut_at.is_none() {
            size.saturating_add(packets)
        } else {
            self.credit = self.credit.saturating_add(packets);
            let windows = self.credit / size;
            self.credit %= size;
            size.saturating_add(windows)
        };
        self.size = Some(grown.min(MAX));
    }

    /// By a quarter, at most once per round trip.
    fn cut(&mut self, now: Time, rtt: Duration, train: u32) {
        if self.cut_at.is_some_and(|at| now - at < rtt) {
            return;
        }
        let size = self.size(train);
        (self.size, self.credit, self.cut_at) = (Some(size - size / 4), 0, Some(now));
    }
}

/// Where measured paths with window begin among the ranks, and where those without window do.
const MEASURED: u64 = 1 << 61;
const FULL: u64 = 1 << 62;

impl Path {
    /// The smaller, the better: unmeasured paths, the emptiest first; measured ones by smoothed round-trip
    /// time; those without window by in_flight / window.
    pub(crate) fn rank(&self, train: u32) -> u64 {
        let window = self.window.size(train);
        if self.in_flight >= window {
            return FULL | ((u64::from(self.in_flight) << 16) / u64::from(window));
        }
        match self.counters.rtt {
            None => self.in_flight.into(),
            Some(rtt) => MEASURED | nanos(rtt).min(MEASURED - 1),
        }
    }

    /// Adjusts the window to `packets` that arrived after `rtt`, `lowest` being the lowest smoothed
    /// round-trip time of all live paths, nanoseconds, and `in_flight` what the path carried before.
    pub(crate) fn on_window_arrival(&mut self, now: Time, arrival: WindowArrival, train: u32) {
        let WindowArrival { packets, in_flight, rtt, lowest, congested } = arrival;
        let room = lowest.saturating_mul(ROOM_HALVES) / 2;
        if congested || nanos(rtt) > room.saturating_add(SLACK_NS) {
            self.window.cut(now, self.counters.rtt.unwrap_or(rtt), train);
        } else if nanos(rtt) <= room && in_flight.saturating_mul(2) >= self.window.size(train) {
            // A window that is not half used has not been put to the test (RFC 7661).
            self.window.grow(packets, train);
        }
    }

    /// Adjusts the window to a loss.
    pub(crate) fn on_window_loss(&mut self, now: Time, train: u32) {
        self.window.cut(now, self.counters.rtt.unwrap_or_default(), train);
    }
}

/// What an arrival means to a window; see [`Path::on_window_arrival`].
pub(crate) struct WindowArrival {
    pub(crate) packets: u32,
    pub(crate) in_flight: u32,
    pub(crate) rtt: Duration,
    pub(crate) lowest: u64,
    pub(crate) congested: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIN: u32 = 4;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    fn measured(us: u64) -> Path {
        let mut path = Path::default();
        path.counters.rtt = Some(Duration::from_micros(us));
        path
    }

    fn arrive(path: &mut Path, us: u64, packets: u32, in_flight: u32, rtt_us: u64) -> u32 {
        let (rtt, lowest) = (Duration::from_micros(rtt_us), 100_000);
        let arrival = WindowArrival { packets, in_flight, rtt, lowest, congested: false };
        path.on_window_arrival(at(us), arrival, TRAIN);
        path.window.size(TRAIN)
    }

    #[test]
    fn grows_by_what_arrives_then_by_one_per_window() {
        let mut path = measured(100);
        assert_eq!(path.window.size(TRAIN), 8); // 2 trains
        assert_eq!(arrive(&mut path, 0, 8, 8, 150), 16);
        assert_eq!(arrive(&mut path, 1, 16, 7, 150), 16, "not half used");
        assert_eq!(arrive(&mut path, 2, 16, 16, 240), 16, "neither room nor a queue");
        assert_eq!(arrive(&mut path, 3, 1, 16, 251), 12, "a queue: a quarter less");
        assert_eq!(arrive(&mut path, 4, 8, 12, 100), 12);
        assert_eq!(arrive(&mut path, 5, 4, 12, 100), 13, "12 packets have arrived");
    }

    #[test]
    fn is_cut_once_per_round_trip_and_never_below_a_train() {
        let mut path = measured(100);
        path.on_window_loss(at(1000), TRAIN);
        path.on_window_loss(at(1099), TRAIN);
        assert_eq!(path.window.size(TRAIN), 6);
        path.on_window_loss(at(1100), TRAIN);
        assert_eq!(path.window.size(TRAIN), 5);
        (12..40).for_each(|i| path.on_window_loss(at(i * 100), TRAIN));
        assert_eq!(path.window.size(TRAIN), TRAIN);
    }

    #[test]
    fn ranks_unmeasured_then_fast_then_emptier() {
        let busy = Path { in_flight: 3, ..Path::default() };
        let (mut full, mut fuller) = (measured(1), measured(1));
        (full.in_flight, fuller.in_flight) = (8, 9);
        let in_order = [Path::default(), busy, measured(50), measured(60), full, fuller];
        let ranks = in_order.map(|path| path.rank(TRAIN));
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }
}
