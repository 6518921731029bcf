//! Estimate of the network's capacity: the highest delivery rate in slow start.

use std::time::Duration;

use braid_wire::Time;

/// The highest delivery rate over half a round trip. Slow start does not fill the network for a
/// whole round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    since: Time,
    bytes: u64,
    /// Bytes per second.
    fastest: f64,
}

impl Delivered {
    /// Records `bytes` acknowledged bytes. `shortest` is the shortest round trip.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u64, shortest: Duration) {
        self.bytes += bytes;
        let took = now - self.since;
        if took >= shortest / 2 && !took.is_zero() {
            self.fastest = self.fastest.max(self.bytes as f64 / took.as_secs_f64());
            (self.since, self.bytes) = (now, 0);
        }
    }

    /// Returns the number of bytes delivered in `time`.
    pub(super) fn within(&self, time: Duration) -> f64 {
        self.fastest * time.as_secs_f64()
    }
}
