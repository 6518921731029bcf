//! What the network carries: the fastest delivery in slow start.

use std::time::Duration;

use braid_wire::Time;

/// The most that was delivered in half a round trip, as a rate. A whole one is longer than slow start fills a network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    since: Time,
    bytes: u64,
    /// Bytes per second.
    fastest: f64,
}

impl Delivered {
    /// So many bytes are acknowledged; `shortest`: the shortest round trip.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u64, shortest: Duration) {
        self.bytes += bytes;
        let took = now - self.since;
        if took >= shortest / 2 && !took.is_zero() {
            self.fastest = self.fastest.max(self.bytes as f64 / took.as_secs_f64());
            (self.since, self.bytes) = (now, 0);
        }
    }

    /// Bytes that are delivered in so long.
    pub(super) fn within(&self, time: Duration) -> f64 {
        self.fastest * time.as_secs_f64()
    }
}
