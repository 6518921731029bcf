//! The state of one path.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::health::{Health, LossCounts};

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
/// A path is one cache line, because a large run of the simulator has millions of paths.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Path {
    pub(crate) in_flight: u32,
    pub(crate) rtt: SmoothedRtt,
    /// Time of the last round-trip sample, or of its last reduction for age.
    pub(crate) measured_at: Time,
    /// Segments and probes sent.
    pub(crate) sent: u64,
    /// Packets acknowledged.
    pub(crate) arrived: u64,
    /// Acknowledged packets whose feedback carried a congestion mark.
    pub(crate) congested: u64,
    pub(crate) health: Health,
}

/// A round-trip time in nanoseconds, smoothed with 1/8, up to 4.2 s; or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SmoothedRtt(u32);

impl SmoothedRtt {
    pub(crate) const NONE: SmoothedRtt = SmoothedRtt(u32::MAX);

    pub(crate) fn from_nanos(ns: u64) -> Self {
        SmoothedRtt(u32::try_from(ns).unwrap_or(u32::MAX).min(u32::MAX - 1))
    }

    #[inline]
    pub(crate) fn nanos(self) -> Option<u64> {
        (self != SmoothedRtt::NONE).then_some(self.0.into())
    }
}

impl Path {
    /// A path that was never used.
    pub(crate) const NEW: Path = Path {
        in_flight: 0,
        rtt: SmoothedRtt::NONE,
        measured_at: Time::ZERO,
        sent: 0,
        arrived: 0,
        congested: 0,
        health: Health::NEW,
    };

    #[inline]
    pub(crate) fn on_sent(&mut self, packets: u32, retransmission: bool) {
        self.sent += u64::from(packets);
        if retransmission {
            self.health.counts_mut().retransmitted += u64::from(packets);
        }
        self.in_flight = self.in_flight.saturating_add(packets);
    }

    /// Records the arrival of packets. `sample` is the round-trip time in nanoseconds.
    pub(crate) fn on_arrival(&mut self, now: Time, packets: u32, sample: u64, congested: bool) {
        let doubted = self.is_doubted();
        self.measured_at = now;
        self.arrived += u64::from(packets);
        self.congested += if congested { packets.into() } else { 0 };
        self.in_flight = self.in_flight.saturating_sub(packets);
        let smoothed = self.rtt.nanos().filter(|_| !doubted).unwrap_or(sample);
        self.rtt = SmoothedRtt::from_nanos(smoothed - smoothed / 8 + sample / 8);
    }

    /// Returns whether the round-trip time was reduced for age, so that the next sample replaces
    /// it.
    fn is_doubted(&self) -> bool {
        self.health.last_arrival().is_some_and(|at| self.measured_at > at)
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt.nanos().map(Duration::from_nanos)
    }

    pub(crate) fn counters(&self) -> PathCounters {
        let Path { sent, arrived, congested, .. } = *self;
        let LossCounts { retransmitted, lost, downs, probes } = self.health.counts();
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
    fn a_path_is_a_cache_line() {
        assert_eq!(size_of::<Path>(), 64);
    }

    fn arrive(path: &mut Path, packets: u32, us: u64) {
        path.on_arrival(Time::ZERO, packets, 1_000 * us, false);
    }

    #[test]
    fn round_trips_are_smoothed_by_an_eighth() {
        let mut path = Path::NEW;
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
        let mut path = Path::NEW;
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
