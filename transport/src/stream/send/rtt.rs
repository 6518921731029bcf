//! Round-trip time and the retransmission time-out (RFC 6298, with the clamps of the
//! configuration).

use std::time::Duration;

use crate::stream::recv::recv_stream::MAX_ACK_DELAY;

/// Time-out before the first sample.
const INITIAL_RTO: Duration = Duration::from_millis(20);

/// With each batch that is acknowledged, the longest round trip decays by this part.
const PEAK_FADES: u32 = 256;

/// Limit of a time-out, as a multiple of the configured longest one. A queue may be longer than
/// that, but one slow round trip must not delay the next for long.
const WAIT_TIMES: u32 = 2;

/// Number of checks for late segments within the shortest time-out. By default that is one per
/// millisecond, the timer granularity of RFC 9002, section 6.1.2.
const GLANCES: u32 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    latest: Duration,
    variation: Duration,
    min_rto: Duration,
    max_rto: Duration,
    /// The longest recent round trip over all paths.
    peak: Duration,
    /// The time-out without backoff. It is used for every segment, and changes only with a sample.
    base_rto: Duration,
}

impl Rtt {
    pub(crate) fn new(min_rto: Duration, max_rto: Duration) -> Self {
        let base_rto = INITIAL_RTO.clamp(min_rto, max_rto);
        let (smoothed, latest, variation, peak) =
            (None, Duration::MAX, Duration::ZERO, Duration::ZERO);
        Rtt { smoothed, latest, variation, min_rto, max_rto, peak, base_rto }
    }

    /// Updates the smoothed round-trip time and its variation (RFC 6298, section 2).
    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        self.latest = rtt;
        let smoothed = match self.smoothed {
            None => {
                self.variation = rtt / 2;
                rtt
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                (smoothed * 7 + rtt) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.base_rto = self.expected(smoothed).clamp(self.min_rto, self.max_rto);
    }

    /// The time-out before clamping (RFC 6298, 2.3).
    fn expected(&self, smoothed: Duration) -> Duration {
        smoothed + self.variation * 4
    }

    /// The time-out after `backoff` time-outs in a row, doubled for each (RFC 6298, 5.5).
    pub(crate) fn rto(&self, backoff: u32) -> Duration {
        if backoff == 0 {
            return self.base_rto;
        }
        self.base_rto.saturating_mul(1 << backoff.min(16)).min(self.max_rto)
    }

    /// The round-trip time for pacing a window smaller than a packet. One slow round trip, perhaps
    /// a pause of the peer, must not delay the next packets for long. So it counts at most as the
    /// longest time-out, and not at all once a later sample is shorter. The smoothed value alone,
    /// with one packet in ten round trips, would remember it for 80 of them.
    pub(crate) fn for_pacing(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed.min(self.latest).min(self.max_rto))
    }

    /// Limit to which a time-out is extended for round trips that other queue pairs have measured.
    pub(crate) fn longest_wait(&self) -> Duration {
        WAIT_TIMES * self.max_rto
    }

    /// Takes the round trip of a batch on its path.
    pub(crate) fn on_path_sample(&mut self, rtt: Duration) {
        let faded = self.peak - self.peak / PEAK_FADES;
        self.peak = faded.max(rtt);
    }

    /// The age from which an overtaken packet is lost, whatever its path. It is twice the longest
    /// recent round trip, or twice the unclamped time-out of RFC 6298 if that is longer. It is at
    /// least the shortest time-out and at most twice the longest. The smoothed round-trip time
    /// would not suffice, because paths differ and one may have a queue.
    pub(crate) fn overdue(&self) -> Duration {
        let expected = self.smoothed.map_or(self.base_rto, |smoothed| self.expected(smoothed));
        (expected.max(self.peak).min(self.max_rto) * 2).max(self.min_rto)
    }

    /// The age from which a packet is late: 9/8 of the longest known round trip (RFC 9002, section
    /// 6.1.2), plus the peer's maximum ack delay. At least the shortest time-out; `None`: no round
    /// trip is known.
    pub(crate) fn late(&self, longest: Duration) -> Option<Duration> {
        let longest = longest.max(self.peak).max(self.smoothed?);
        Some((longest + longest / 8 + MAX_ACK_DELAY).max(self.min_rto))
    }

    /// Interval of checks for late segments. `None`: there is none before the time-out.
    pub(crate) fn tail_delay(&self) -> Option<Duration> {
        let may_pay = self.base_rto > self.min_rto && self.smoothed.is_some();
        may_pay.then(|| self.min_rto / GLANCES)
    }

    /// The age difference to a newer arrival from which a packet is lost, not late (as in RFC 9002,
    /// 6.1.2, but longer, because packets take many paths).
    pub(crate) fn reorder_time(&self) -> Duration {
        self.smoothed.map_or(self.min_rto, |smoothed| smoothed * 2 + self.variation * 4)
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = Rtt::new(MS / 1000, MS * 1000);
        rtt.on_sample(MS * 8);
        assert_eq!(rtt.rto(0), MS * 24);
        rtt.on_sample(MS * 16);
        assert_eq!(rtt.smoothed(), Some(MS * 9));
        assert_eq!(rtt.rto(0), MS * 9 + MS * 5 * 4);
    }

    #[test]
    fn nothing_is_overdue_before_twice_the_longest_round_trip_of_late() {
        let mut rtt = Rtt::new(MS, MS * 100);
        rtt.on_sample(MS / 10);
        assert_eq!(rtt.overdue(), MS);
        rtt.on_path_sample(MS * 5);
        rtt.on_path_sample(MS / 10);
        assert!((MS * 9..MS * 10).contains(&rtt.overdue()), "{:?}", rtt.overdue());
        (0..2000).for_each(|_| rtt.on_path_sample(MS / 10));
        assert_eq!(rtt.overdue(), MS);
        rtt.on_path_sample(MS * 1000);
        assert_eq!(rtt.overdue(), MS * 200);
    }

    #[test]
    fn a_pause_that_is_over_paces_nothing() {
        let mut rtt = Rtt::new(MS, MS * 100);
        assert_eq!(rtt.for_pacing(), None);
        rtt.on_sample(MS * 400);
        assert_eq!(rtt.for_pacing(), Some(MS * 100));
        rtt.on_sample(MS / 100);
        assert_eq!(rtt.for_pacing(), Some(MS / 100));
        rtt.on_sample(MS * 400);
        assert!(rtt.for_pacing().is_some_and(|paced| paced <= MS * 100));
    }

    #[test]
    fn backs_off_to_the_limit() {
        let mut rtt = Rtt::new(MS * 4, MS * 100);
        rtt.on_sample(MS / 10);
        assert_eq!([rtt.rto(0), rtt.rto(1), rtt.rto(2)], [MS * 4, MS * 8, MS * 16]);
        assert_eq!(rtt.rto(200), MS * 100);
    }
}
