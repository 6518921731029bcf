//! The model of the path: bandwidth, shortest round trip, aggregation of acknowledgements, and the
//! bounds that losses set (section 5.5).

use std::time::Duration;

use braid_wire::Time;

use super::loss_floor::LossFloor;

/// Length of the filter of round trips (section 5.5.7.2).
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// Interval of ProbeRTT (section 2.16.2).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Round trips after which the older half of the aggregation filter expires: half of
/// `ExtraAckedFilterLen` (section 2.12).
const AGGREGATION_ROUNDS: u32 = 5;

/// The share of the long-term bound that is left to others (section 2.8, `Headroom`).
const HEADROOM: f64 = 0.15;

/// The model of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) max_bandwidth: MaxBandwidth,
    pub(super) min_rtt: MinRtt,
    pub(super) aggregation: Aggregation,
    pub(super) short_term: ShortTerm,
    /// The highest volume in flight that has not lost too much (`inflight_longterm`).
    pub(super) long_term: f64,
    pub(super) loss_floor: LossFloor,
}

impl Path {
    pub(super) fn new(loss_floor: LossFloor) -> Self {
        Path {
            max_bandwidth: MaxBandwidth::default(),
            min_rtt: MinRtt::default(),
            aggregation: Aggregation::default(),
            short_term: ShortTerm::NONE,
            long_term: f64::INFINITY,
            loss_floor,
        }
    }

    /// Returns the bandwidth to use in bytes per second (`BBR.bw`).
    pub(super) fn bandwidth(&self) -> f64 {
        self.max_bandwidth.get().min(self.short_term.bandwidth)
    }

    /// Returns the bandwidth-delay product, if a round trip is known.
    pub(super) fn product(&self) -> Option<f64> {
        Some(self.bandwidth() * self.min_rtt.get()?.as_secs_f64())
    }

    /// Returns the long-term bound less the headroom for others, at least a packet.
    pub(super) fn with_headroom(&self, packet: f64) -> f64 {
        match self.long_term.is_finite() {
            true => self.long_term - (HEADROOM * self.long_term).max(packet),
            false => f64::INFINITY,
        }
    }
}

/// The highest delivery rate of the latest two ProbeBW cycles, in bytes per second (sections 5.5.3
/// to 5.5.6).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MaxBandwidth {
    current: f64,
    previous: f64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> f64 {
        self.current.max(self.previous)
    }

    pub(super) fn on_sample(&mut self, rate: f64, is_app_limited: bool) {
        if !is_app_limited || rate >= self.get() {
            self.current = self.current.max(rate);
        }
    }

    /// Begins a cycle.
    pub(super) fn advance(&mut self) {
        (self.previous, self.current) = (self.current, 0.0);
    }
}

/// The shortest round trip of the latest ten seconds, and the time of the next ProbeRTT (section
/// 5.3.4.3).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MinRtt {
    shortest: Option<(Duration, Time)>,
    /// The shortest round trip since the last ProbeRTT.
    recent: Option<(Duration, Time)>,
}

impl MinRtt {
    pub(super) fn get(&self) -> Option<Duration> {
        self.shortest.map(|(rtt, _)| rtt)
    }

    /// Records a round trip. Returns whether it is time for ProbeRTT.
    pub(super) fn on_sample(&mut self, now: Time, rtt: Duration) -> bool {
        let is_due = self.recent.is_some_and(|(_, at)| now - at > PROBE_RTT_INTERVAL);
        if is_due || self.recent.is_none_or(|(recent, _)| rtt < recent) {
            self.recent = Some((rtt, now));
        }
        let expired = |(shortest, at)| {
            now - at > MIN_RTT_FILTER || self.recent.is_some_and(|(recent, _)| recent < shortest)
        };
        if self.shortest.is_none_or(expired) {
            self.shortest = self.recent;
        }
        is_due
    }

    /// Restarts the interval after ProbeRTT.
    pub(super) fn on_probed(&mut self, now: Time) {
        if let Some((_, at)) = &mut self.recent {
            *at = now;
        }
    }
}

/// The volume by which acknowledgements exceed the bandwidth because they arrive in bursts (section
/// 5.5.9).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Aggregation {
    began: Time,
    delivered: f64,
    rounds: u32,
    recent: f64,
    older: f64,
}

impl Aggregation {
    /// Returns the excess in bytes.
    pub(super) fn extra(&self) -> f64 {
        self.recent.max(self.older)
    }

    pub(super) fn restart(&mut self, now: Time) {
        (self.began, self.delivered) = (now, 0.0);
    }

    /// Processes acknowledged bytes. `bandwidth`: bytes per second; `most`: limit of the excess.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u64, bandwidth: f64, most: f64) {
        let mut expected = bandwidth * (now - self.began).as_secs_f64();
        if self.delivered <= expected {
            self.restart(now);
            expected = 0.0;
        }
        self.delivered += bytes as f64;
        self.recent = self.recent.max((self.delivered - expected).min(most));
    }

    /// Ends a round trip. Until the pipe is full, the filter is one round trip long.
    pub(super) fn on_round(&mut self, is_pipe_full: bool) {
        self.rounds += 1;
        if !is_pipe_full || self.rounds >= AGGREGATION_ROUNDS {
            (self.older, self.recent, self.rounds) = (self.recent, 0.0, 0);
        }
    }
}

/// Bounds that hold until the next probe for bandwidth: the short-term model (section 3.4.2.2).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ShortTerm {
    /// Bytes per second.
    pub(super) bandwidth: f64,
    pub(super) in_flight: f64,
}

impl ShortTerm {
    pub(super) const NONE: Self = ShortTerm { bandwidth: f64::INFINITY, in_flight: f64::INFINITY };

    /// Lowers the bounds after a round trip with losses (section 5.5.10.3). `latest`: the most that
    /// was delivered in it; `initial`: the bounds to begin with; `beta`: the minimum share that
    /// remains.
    pub(super) fn lower(&mut self, latest: Self, initial: Self, beta: f64) {
        let lowered = |bound: f64, latest: f64, initial: f64| {
            let bound = if bound.is_infinite() { initial } else { bound };
            latest.max(beta * bound)
        };
        self.bandwidth = lowered(self.bandwidth, latest.bandwidth, initial.bandwidth);
        self.in_flight = lowered(self.in_flight, latest.in_flight, initial.in_flight);
    }

    pub(super) fn raise_to(&mut self, other: Self) {
        self.bandwidth = self.bandwidth.max(other.bandwidth);
        self.in_flight = self.in_flight.max(other.in_flight);
    }
}
