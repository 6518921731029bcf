//! The averaged delay of messages, the paper's sign of global congestion (section 4).

use std::time::Duration;

/// Weight of a message. The paper states none; this is that of a round-trip time in RFC 6298.
const WEIGHT: f64 = 1.0 / 8.0;

/// The average of messages' delays, each over its target. Messages of one length, the usual case,
/// have one target, so this is the average delay over it. A shorter message has a shorter target.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct AverageDelay(Option<f64>);

impl AverageDelay {
    /// Adds a message. Returns the average.
    pub(super) fn add(&mut self, delay: Duration, target: Duration) -> f64 {
        let target = target.max(Duration::from_nanos(1));
        let sample = delay.as_secs_f64() / target.as_secs_f64();
        let before = self.0.unwrap_or(sample);
        let average = before + WEIGHT * (sample - before);
        self.0 = Some(average);
        average
    }

    /// Begins again, because the window has changed.
    pub(super) fn restart(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_message_among_many_is_no_congestion() {
        let (us, mut average) = (Duration::from_micros, AverageDelay::default());
        let is = |average: f64, expected: f64| (average - expected).abs() < 1e-9 * expected;
        assert!(is(average.add(us(46), us(92)), 0.5));
        assert!(is(average.add(us(184), us(92)), 0.6875), "an eighth of the way to 2");
        assert!((0..20).map(|_| average.add(us(184), us(92))).any(|average| average > 1.0));
        average.restart();
        assert!(is(average.add(us(46), us(92)), 0.5));
        assert!(is(AverageDelay::default().add(us(1), Duration::ZERO), 1000.0), "no division by 0");
    }
}
