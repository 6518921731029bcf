//! Goodput over time, by completions: what was finished in each interval.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The goodput of one interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// When the interval ended, counted from the first message.
    pub(crate) at_ms: f64,
    pub(crate) goodput_gbps: f64,
}

/// Cuts time into intervals. It runs on nobody's thread: an interval ends with the first look at the
/// clock after its time, and its goodput is over the time that it really took.
pub(crate) struct Sampler {
    every: Duration,
    began: Instant,
    cut: Instant,
    bytes: u64,
    samples: Vec<Sample>,
}

impl Sampler {
    pub(crate) fn new(every: Duration, began: Instant) -> Self {
        Sampler { every, began, cut: began, bytes: 0, samples: Vec::new() }
    }

    /// So many payload bytes have been completed.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A look at the clock.
    pub(crate) fn tick(&mut self, now: Instant) {
        let took = now.duration_since(self.cut);
        if took < self.every {
            return;
        }
        self.samples.push(Sample {
            at_ms: now.duration_since(self.began).as_secs_f64() * 1e3,
            goodput_gbps: self.bytes as f64 * 8e-9 / took.as_secs_f64(),
        });
        self.cut = now;
        self.bytes = 0;
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
        let mut sampler = Sampler::new(Duration::from_millis(1), began);
        for (us, bytes) in [(300, 500), (1000, 500), (3000, 1000), (3500, 1000)] {
            sampler.add(bytes);
            sampler.tick(at(us));
        }
        let samples = sampler.into_samples();
        assert_eq!(samples.len(), 2);
        assert_eq!(samples[0].at_ms, 1.0);
        assert!((samples[0].goodput_gbps - 0.008).abs() < 1e-12); // 1000 bytes in 1 ms
        assert!((samples[1].goodput_gbps - 0.004).abs() < 1e-12); // 1000 bytes in 2 ms
    }
}
