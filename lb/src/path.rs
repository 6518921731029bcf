//! The state of one path.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::health::Health;

/// Counters of a path since the creation of its path set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PathCounters {
    /// Segments and probes sent.
    pub sent: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets acknowledged.
    pub arrived: u64,
    /// Acknowledged packets whose feedback carried a congestion mark.
    pub congested: u64,
    /// Round-trip time, smoothed with 1/8. `None` before the first sample and after the path went
    /// down.
    pub rtt: Option<Duration>,
    /// Number of times that the path went down.
    pub downs: u64,
    /// Probes sent.
    pub probes: u64,
}

/// The state of one path, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Whether policies may pick it.
    pub live: bool,
    /// The counters.
    pub counters: PathCounters,
}

/// One path. `in_flight` counts the segments sent since the path last came up that neither arrived
/// nor were declared lost.
///
/// A spurious loss is counted twice, so `in_flight` is too small for a while, but never negative.
///
/// A path takes two cache lines, because a large run of the simulator has millions of paths. A
/// departure touches the first one only.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Path {
    pub(crate) in_flight: u32,
    /// Whether the round-trip time was reduced for age, so that the next sample replaces it.
    pub(crate) doubted: bool,
    /// Time of the last round-trip sample, or of its last reduction for age.
    pub(crate) measured_at: Time,
    /// Round-trip time in nanoseconds, smoothed with 1/8.
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) counts: Counts,
    pub(crate) health: Health,
}

/// The counters of a path. See [`PathCounters`].
#[derive(Clone, Debug, Default)]
#[repr(C)] // in the order in which packets need the fields
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) arrived: u64,
    pub(crate) congested: u64,
    pub(crate) lost: u64,
    pub(crate) downs: u32,
    pub(crate) probes: u32,
}

impl Path {
    #[inline]
    pub(crate) fn on_sent(&mut self, packets: u32, retransmission: bool) {
        self.counts.sent += u64::from(packets);
        self.counts.retransmitted += if retransmission { packets.into() } else { 0 };
        self.in_flight = self.in_flight.saturating_add(packets);
    }

    /// Records the arrival of packets. `sample` is the round-trip time in nanoseconds.
    pub(crate) fn on_arrival(&mut self, now: Time, packets: u32, sample: u64, congested: bool) {
        self.measured_at = now;
        self.counts.arrived += u64::from(packets);
        self.counts.congested += if congested { packets.into() } else { 0 };
        self.in_flight = self.in_flight.saturating_sub(packets);
        let doubted = std::mem::take(&mut self.doubted);
        let smoothed = self.rtt_ns.filter(|_| !doubted).unwrap_or(sample);
        self.rtt_ns = Some(smoothed - smoothed / 8 + sample / 8);
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt_ns.map(Duration::from_nanos)
    }

    pub(crate) fn counters(&self) -> PathCounters {
        let Counts { sent, retransmitted, arrived, congested, lost, downs, probes } = self.counts;
        let (rtt, downs, probes) = (self.rtt(), downs.into(), probes.into());
        PathCounters { sent, retransmitted, lost, arrived, congested, rtt, downs, probes }
    }
}

/// Returns a duration in nanoseconds, limited to 584 years.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_two_cache_lines() {
        assert_eq!(size_of::<Path>(), 128);
    }

    fn arrive(path: &mut Path, packets: u32, us: u64) {
        path.on_arrival(Time::ZERO, packets, 1_000 * us, false);
    }

    #[test]
    fn round_trips_are_smoothed_by_an_eighth() {
        let mut path = Path::default();
        arrive(&mut path, 1, 800);
        assert_eq!(path.rtt(), Some(Duration::from_micros(800)));
        arrive(&mut path, 1, 1600);
        assert_eq!(path.rtt(), Some(Duration::from_micros(900))); // 800 + (1600 - 800) / 8
        (0..200).for_each(|_| arrive(&mut path, 1, 80));
        let settled = path.rtt().unwrap();
        assert!(
            settled.abs_diff(Duration::from_micros(80)) < Duration::from_nanos(8),
            "{settled:?}"
        );
    }

    #[test]
    fn what_is_heard_of_twice_leaves_nothing_below_zero() {
        let mut path = Path::default();
        (0..3).for_each(|i| path.on_sent(1, i == 2));
        arrive(&mut path, 2, 1);
        assert_eq!(path.in_flight, 1);
        arrive(&mut path, 3, 1);
        assert_eq!(path.in_flight, 0);
        path.on_sent(1, false);
        let counters = path.counters();
        assert_eq!(path.in_flight, 1);
        assert_eq!((counters.sent, counters.retransmitted, counters.arrived), (4, 1, 5));
    }
}
