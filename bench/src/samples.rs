//! Goodput over time: the completions of each interval.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::report::{Bandwidth, Figures};

/// The goodput of one interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// End of the interval, from the first message.
    pub(crate) at_ms: f64,
    pub(crate) goodput_gbps: f64,
    /// The longest retransmission time-out of this side's queue pairs at the end of the interval.
    pub(crate) rto_ms: f64,
}

/// Divides time into intervals. It has no thread: an interval ends at the first read of the clock
/// after its time, and its goodput is over the actual time.
pub(crate) struct Sampler {
    every: Duration,
    began: Instant,
    cut: Instant,
    /// Bytes of a message.
    size: u64,
    messages: u64,
    samples: Vec<Sample>,
}

impl Sampler {
    pub(crate) fn new(every: Duration, began: Instant, size: u64) -> Self {
        Sampler { every, began, cut: began, size, messages: 0, samples: Vec::new() }
    }

    /// Counts a completed message.
    pub(crate) fn add(&mut self) {
        self.messages += 1;
    }

    /// Reads the clock. Returns the figures of an interval that has ended, and the seconds from the
    /// first message to its end. `rto` is called at the end of an interval.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        rto: impl FnOnce() -> Duration,
    ) -> Option<(Figures, f64)> {
        let took = now.duration_since(self.cut);
        if took < self.every {
            return None;
        }
        let (bytes, iterations) = (self.size, self.messages);
        let bandwidth = Bandwidth::new(iterations, bytes, took.as_secs_f64(), None);
        let at = now.duration_since(self.began).as_secs_f64();
        let goodput_gbps = bandwidth.goodput_gbps;
        let rto_ms = rto().as_secs_f64() * 1e3;
        self.samples.push(Sample { at_ms: at * 1e3, goodput_gbps, rto_ms });
        self.cut = now;
        self.messages = 0;
        Some((Figures { bytes, iterations, bandwidth: Some(bandwidth), latency: None }, at))
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_as_long_as_it_really_took() {
        let began = Instant::now();
        let at = |us: u64| began + Duration::from_micros(us);
        let mut sampler = Sampler::new(Duration::from_millis(1), began, 500);
        for (us, messages) in [(300, 1), (1000, 1), (3000, 2), (3500, 2)] {
            (0..messages).for_each(|_| sampler.add());
            sampler.tick(at(us), || Duration::from_millis(4));
        }
        let samples = sampler.into_samples();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].at_ms, samples[0].rto_ms), (1.0, 4.0));
        assert!((samples[0].goodput_gbps - 0.008).abs() < 1e-12); // 1000 bytes in 1 ms
        assert!((samples[1].goodput_gbps - 0.004).abs() < 1e-12); // 1000 bytes in 2 ms
    }
}
