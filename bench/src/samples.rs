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
    /// Packets that the peer has acknowledged in the interval, in any order.
    pub(crate) acked_packets: u64,
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
    /// Packets acknowledged before the interval.
    acked_packets: u64,
    samples: Vec<Sample>,
}

/// The state of an engine at the end of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reading {
    /// Packets that the peer has acknowledged so far.
    pub(crate) acked_packets: u64,
    /// The longest retransmission time-out of the queue pairs.
    pub(crate) rto: Duration,
}

impl Sampler {
    /// Creates a sampler. `acked_packets`: those acknowledged before it.
    pub(crate) fn new(every: Duration, began: Instant, size: u64, acked_packets: u64) -> Self {
        let (cut, messages, samples) = (began, 0, Vec::new());
        Sampler { every, began, cut, size, messages, acked_packets, samples }
    }

    /// Counts a completed message.
    pub(crate) fn add(&mut self) {
        self.messages += 1;
    }

    /// Reads the clock. Returns the figures of an interval that has ended, and the seconds from the
    /// first message to its end. `read` is called at the end of an interval.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        read: impl FnOnce() -> Reading,
    ) -> Option<(Figures, f64)> {
        let took = now.duration_since(self.cut);
        if took < self.every {
            return None;
        }
        let (bytes, iterations) = (self.size, self.messages);
        let bandwidth = Bandwidth::new(iterations, bytes, took.as_secs_f64(), None);
        let at = now.duration_since(self.began).as_secs_f64();
        let goodput_gbps = bandwidth.goodput_gbps;
        let Reading { acked_packets: acked, rto } = read();
        let before = std::mem::replace(&mut self.acked_packets, acked);
        let acked_packets = acked.saturating_sub(before);
        let (at_ms, rto_ms) = (at * 1e3, rto.as_secs_f64() * 1e3);
        self.samples.push(Sample { at_ms, goodput_gbps, acked_packets, rto_ms });
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
        let mut sampler = Sampler::new(Duration::from_millis(1), began, 500, 10);
        let rto = Duration::from_millis(4);
        for (us, messages) in [(300, 1), (1000, 1), (3000, 2), (3500, 2)] {
            (0..messages).for_each(|_| sampler.add());
            sampler.tick(at(us), || Reading { acked_packets: 10 + us / 100, rto });
        }
        let samples = sampler.into_samples();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].at_ms, samples[0].rto_ms), (1.0, 4.0));
        assert_eq!((samples[0].acked_packets, samples[1].acked_packets), (10, 20));
        assert!((samples[0].goodput_gbps - 0.008).abs() < 1e-12); // 1000 bytes in 1 ms
        assert!((samples[1].goodput_gbps - 0.004).abs() < 1e-12); // 1000 bytes in 2 ms
    }
}
