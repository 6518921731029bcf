//! Estimates of how long a transfer takes, from the transfers that have ended.
//!
//! The durations of transfers lie around a line over their bytes: a fixed time and a time per byte.
//! The line is fitted by least squares. Each transfer weighs less than the one after it, so that
//! the line follows the network.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::memory::MemoryKind;
use crate::transfer::Operation;

/// The weight of a transfer beside that of the next one.
const MEMORY: f64 = 0.9;

/// The estimated duration of a transfer, and by how much it may be wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Estimate {
    pub(crate) duration: Duration,
    /// Two standard deviations of what was measured.
    pub(crate) margin: Duration,
}

/// The transfers that are alike: their direction, and whether memory of a GPU takes part.
pub(crate) type Class = (Operation, MemoryKind);

/// The measured transfers with one agent.
#[derive(Default)]
pub(crate) struct Costs {
    lines: Mutex<[Line; 4]>,
}

impl Costs {
    /// Adds a transfer that has ended.
    pub(crate) fn add(&self, class: Class, bytes: u64, took: Duration) {
        self.with(|lines| lines[index(class)].add(bytes as f64, took.as_secs_f64()));
    }

    /// Estimates the duration of a transfer. `None`: none of its class has ended.
    pub(crate) fn estimate(&self, class: Class, bytes: u64) -> Option<Estimate> {
        self.with(|lines| lines[index(class)].estimate(bytes as f64))
    }

    fn with<T>(&self, call: impl FnOnce(&mut [Line; 4]) -> T) -> T {
        call(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn index((operation, kind): Class) -> usize {
    usize::from(operation == Operation::Write) + 2 * usize::from(kind == MemoryKind::Vram)
}

/// The weighted sums of a line's fit, with bytes as `x` and seconds as `y`.
#[derive(Clone, Copy, Default)]
struct Line {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        for (sum, value) in [
            (&mut self.weight, 1.0),
            (&mut self.x, x),
            (&mut self.y, y),
            (&mut self.xx, x * x),
            (&mut self.xy, x * y),
            (&mut self.yy, y * y),
        ] {
            *sum = *sum * MEMORY + value;
        }
    }

    /// The seconds of no bytes, and of each byte. Neither is negative.
    fn fit(&self) -> (f64, f64) {
        let mean = (self.x / self.weight, self.y / self.weight);
        let spread = self.xx / self.weight - mean.0 * mean.0;
        // Transfers of one size tell the time per byte only.
        let through_origin = (0.0, if self.xx > 0.0 { self.xy / self.xx } else { 0.0 });
        if spread <= 1e-9 * self.xx / self.weight {
            return if self.xx > 0.0 { through_origin } else { (mean.1, 0.0) };
        }
        let slope = (self.xy / self.weight - mean.0 * mean.1) / spread;
        let base = mean.1 - slope * mean.0;
        match (slope < 0.0, base < 0.0) {
            (true, _) => (mean.1, 0.0),
            (false, true) => through_origin,
            (false, false) => (base, slope),
        }
    }

    fn estimate(&self, x: f64) -> Option<Estimate> {
        if self.weight == 0.0 {
            return None;
        }
        let (base, slope) = self.fit();
        // The sum of (y - base - slope x)^2, over the weight.
        let squares = self.yy - 2.0 * (base * self.y + slope * self.xy)
            + base * base * self.weight
            + 2.0 * base * slope * self.x
            + slope * slope * self.xx;
        let deviation = (squares / self.weight).max(0.0).sqrt();
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
        Some(Estimate { duration: seconds(base + slope * x), margin: seconds(2.0 * deviation) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: Class = (Operation::Write, MemoryKind::Dram);

    fn micros(estimate: Duration) -> f64 {
        (estimate.as_secs_f64() * 1e6).round()
    }

    #[test]
    fn nothing_is_estimated_before_a_transfer_has_ended() {
        let costs = Costs::default();
        assert_eq!(costs.estimate(WRITES, 4096), None);
        costs.add((Operation::Read, MemoryKind::Dram), 4096, Duration::from_micros(10));
        costs.add((Operation::Write, MemoryKind::Vram), 4096, Duration::from_micros(10));
        assert_eq!(costs.estimate(WRITES, 4096), None, "others tell nothing");
    }

    #[test]
    fn fixed_time_and_time_per_byte_are_told_apart() {
        let costs = Costs::default();
        for kib in [1_u64, 64, 4, 1024, 256] {
            costs.add(WRITES, kib << 10, Duration::from_micros(50 + kib));
        }
        let estimate = costs.estimate(WRITES, 10 << 20).unwrap();
        assert_eq!(micros(estimate.duration), 50.0 + 10_240.0);
        assert!(estimate.margin < Duration::from_micros(1), "{estimate:?}");
    }

    #[test]
    fn transfers_of_one_size_tell_the_time_per_byte() {
        let costs = Costs::default();
        for took in [90, 110, 90, 110] {
            costs.add(WRITES, 1 << 20, Duration::from_micros(took));
        }
        let estimate = costs.estimate(WRITES, 2 << 20).unwrap();
        assert!((195.0..205.0).contains(&micros(estimate.duration)), "{estimate:?}");
        assert!((15.0..25.0).contains(&micros(estimate.margin)), "{estimate:?}");
    }

    #[test]
    fn estimates_follow_the_network() {
        let costs = Costs::default();
        (0..50).for_each(|_| costs.add(WRITES, 1 << 20, Duration::from_micros(100)));
        (0..50).for_each(|_| costs.add(WRITES, 1 << 20, Duration::from_micros(400)));
        let estimate = costs.estimate(WRITES, 1 << 20).unwrap();
        assert!((395.0..=400.0).contains(&micros(estimate.duration)), "{estimate:?}");
    }

    /// Measurements that no line with positive parts fits.
    #[test]
    fn estimates_are_never_negative() {
        for times in [[900, 10], [10, 900]] {
            let costs = Costs::default();
            for (kib, took) in [1_u64, 1024].into_iter().zip(times) {
                costs.add(WRITES, kib << 10, Duration::from_micros(took));
            }
            costs.add(WRITES, 0, Duration::from_micros(3));
            for bytes in [0, 1, 1 << 40] {
                assert!(costs.estimate(WRITES, bytes).is_some());
            }
        }
    }
}
