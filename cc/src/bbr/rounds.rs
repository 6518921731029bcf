//! Round trips, their losses, and the progress of ProbeRTT.

use std::time::Duration;

use braid_wire::Time;

use super::delivery::RateSample;
use super::model::{Path, ShortTerm};
use crate::RttSample;

/// A round trip met no queue if it exceeds the shortest by at most a 32nd, or by a burst of the
/// sender. A burst takes this time, or the transmission time of these bytes if that is less.
const NO_QUEUE_PART: u32 = 32;
const BURST: Duration = Duration::from_micros(250);
const BURST_BYTES: f64 = 65_536.0;

/// No delivery yet.
pub(super) const NO_DELIVERY: ShortTerm = ShortTerm { bandwidth: 0.0, in_flight: 0.0 };

/// Round trips by packets (section 5.5.1).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rounds {
    /// The round trip ends with the acknowledgement of a packet that left after so many bytes were
    /// delivered.
    ends_at: u64,
    pub(super) count: u32,
    /// Whether the latest sample has begun a round trip.
    pub(super) is_start: bool,
    /// The round trip in which Drain began.
    pub(super) drain: u32,
    /// The shortest round-trip time of the current round trip.
    shortest: Option<Duration>,
    /// Whether the queue was empty at some time in the latest round trip.
    pub(super) found_no_queue: bool,
}

impl Rounds {
    /// Begins a round trip after so many delivered bytes.
    pub(super) fn start(&mut self, delivered: u64) {
        self.ends_at = delivered;
    }

    /// Processes a sample. Returns whether it ends a round trip.
    pub(super) fn on_sample(&mut self, sample: &RateSample, path: &Path) -> bool {
        let shortest = self.shortest.map_or(sample.rtt, |rtt| rtt.min(sample.rtt));
        self.shortest = Some(shortest);
        self.is_start = sample.prior_delivered >= self.ends_at;
        if self.is_start {
            let base = path.min_rtt.get().unwrap_or(shortest);
            let seconds = BURST_BYTES / path.bandwidth().max(1.0);
            let burst = Duration::from_secs_f64(seconds).min(BURST);
            let longer = burst.max(base / NO_QUEUE_PART);
            self.found_no_queue = shortest <= base.saturating_add(longer);
            self.shortest = None;
            self.count = self.count.wrapping_add(1);
        }
        self.is_start
    }
}

/// Losses and deliveries of the current round trip (section 5.5.10.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// The most that was delivered.
    pub(super) latest: ShortTerm,
    pub(super) ends_at: u64,
    /// `C.delivered` at its begin.
    began_at: u64,
    /// Lost and marked bytes and packets.
    pub(super) bytes: u64,
    pub(super) packets: u64,
    /// Whether a sample is app-limited. What was delivered then says nothing about the path.
    pub(super) is_limited: bool,
    /// Lost bytes, and lost or delivered ones, of the round trip before.
    before: (u64, u64),
    /// The bandwidth at the end of the round trip before, in Startup.
    pub(super) bandwidth_before: f64,
    /// Time at which the latest probe ended. The losses of packets that left before it do not lower
    /// the short-term bounds, because the long-term bound has answered them. Otherwise those that
    /// are detected late would be answered twice.
    pub(super) settled_at: Time,
    /// The sampled packet of the acknowledgement that is being processed, and its time of arrival.
    pub(super) sample: Option<(Time, RttSample)>,
}

impl Default for Losses {
    fn default() -> Self {
        Losses {
            latest: NO_DELIVERY,
            ends_at: 0,
            began_at: 0,
            bytes: 0,
            packets: 0,
            is_limited: false,
            before: (0, 0),
            bandwidth_before: 0.0,
            settled_at: Time::ZERO,
            sample: None,
        }
    }
}

impl Losses {
    /// Counts lost or marked packets after so many delivered bytes. The first ones begin a round
    /// trip of losses.
    pub(super) fn count(&mut self, packets: u64, bytes: u64, delivered: u64) {
        if self.packets == 0 {
            self.ends_at = delivered;
        }
        self.packets += packets;
        self.bytes += bytes;
    }

    /// Drops the losses counted so far.
    pub(super) fn clear(&mut self) {
        (self.bytes, self.packets) = (0, 0);
    }

    /// Ends the round trip after so many delivered bytes. Returns the lost bytes, and the lost or
    /// delivered ones. `smooths`: whether those of the round trip before are included, because
    /// losses are detected in bursts.
    pub(super) fn end(&mut self, delivered: u64, smooths: bool) -> (u64, f64) {
        let carried = delivered - self.began_at + self.bytes;
        let before = std::mem::replace(&mut self.before, (self.bytes, carried));
        let (bytes, carried) = match smooths {
            true => (self.bytes + before.0, carried + before.1),
            false => (self.bytes, carried),
        };
        (self.ends_at, self.began_at) = (delivered, delivered);
        self.clear();
        self.is_limited = false;
        (bytes, carried as f64)
    }
}

/// The progress of ProbeRTT (section 5.3.4.3).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ProbeRtt {
    /// The earliest end, once little is in flight.
    pub(super) ends_at: Option<Time>,
    pub(super) is_round_over: bool,
    /// Whether the connection has sent again after being idle, so that no ProbeRTT is needed.
    pub(super) after_idle: bool,
    /// The window before.
    pub(super) window: f64,
}
