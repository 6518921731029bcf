//! The longest recent round trip.
//!
//! This is a maximum over a sliding time window, kept in two spans like the windowed filters of
//! BBR, so that a queue that has drained is soon forgotten.

use std::time::Duration;

use braid_wire::Time;

/// A maximum counts for at least this long, ...
const SHORTEST_SPAN: Duration = Duration::from_millis(10);
/// ... or for this multiple of itself.
const SPAN_TRIPS: u32 = 2;

/// The maximum round-trip time of the present span and of the one before.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MaxRtt {
    present: Duration,
    before: Duration,
    /// End of the present span.
    until: Time,
}

impl MaxRtt {
    pub(crate) fn on_sample(&mut self, now: Time, rtt: Duration) {
        if now >= self.until {
            self.before = self.get(now);
            self.present = Duration::ZERO;
            self.until = now + self.span().max(SPAN_TRIPS * rtt);
        }
        self.present = self.present.max(rtt);
    }

    fn span(&self) -> Duration {
        (SPAN_TRIPS * self.present.max(self.before)).max(SHORTEST_SPAN)
    }

    /// Returns the maximum. Zero: there is no recent sample.
    pub(crate) fn get(&self, now: Time) -> Duration {
        if now < self.until {
            self.present.max(self.before)
        } else if now < self.until + self.span() {
            self.present
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_peak_is_forgotten_after_a_few_round_trips() {
        let (mut peak, at) = (MaxRtt::default(), |ms| Time::ZERO + MS * ms);
        peak.on_sample(at(0), MS * 50);
        assert_eq!([peak.get(at(0)), peak.get(at(199))], [MS * 50; 2]);
        assert_eq!(peak.get(at(200)), Duration::ZERO);
        peak.on_sample(at(1), MS);
        peak.on_sample(at(101), MS);
        assert_eq!([peak.get(at(101)), peak.get(at(200))], [MS * 50; 2]);
        peak.on_sample(at(201), MS);
        assert_eq!(peak.get(at(201)), MS);
    }
}
