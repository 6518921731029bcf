//! The bandwidth of a stream: the maximum delivery rate over one of the latest 8 to 16 round trips
//! (compare BBR's filter, Cardwell et al., CACM 2017).

use std::time::Duration;

use braid_wire::Time;

/// Number of round trips after which the older half of the history expires.
const ROUNDS: u32 = 8;

/// Delivery rates in bytes per second. 0 means unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bandwidth {
    /// Start of the current round trip.
    since: Option<Time>,
    delivered: u64,
    /// Whether the current round trip can raise the estimate but not replace it, because the stream
    /// was application-limited.
    app_limited: bool,
    rounds: u32,
    recent: f64,
    older: f64,
    /// The rate of the latest round trip in which the stream had enough to send.
    latest: f64,
    /// The highest rate ever.
    peak: f64,
}

impl Bandwidth {
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.recent.max(self.older)
    }

    /// Returns the rate of the latest round trip in which the stream had enough to send, or 0.
    pub(crate) fn latest(&self) -> f64 {
        self.latest
    }

    /// Returns the highest rate ever: a lower bound of the link's.
    pub(crate) fn peak(&self) -> f64 {
        self.peak
    }

    /// Records `bytes` acknowledged bytes. `rtt` is the length of a round trip.
    pub(crate) fn on_ack(&mut self, now: Time, bytes: u64, rtt: Duration, app_limited: bool) {
        let Some(since) = self.since else {
            // These packets were sent before the first round trip.
            return self.begin(now);
        };
        self.delivered += bytes;
        self.app_limited |= app_limited;
        let took = now - since;
        if took < rtt.max(Duration::from_nanos(1)) {
            return;
        }
        let sample = self.delivered as f64 / took.as_secs_f64();
        self.recent = self.recent.max(sample);
        self.peak = self.peak.max(sample);
        if !self.app_limited {
            self.latest = sample;
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                (self.older, self.recent, self.rounds) = (self.recent, sample, 0);
            }
        }
        self.begin(now);
    }

    fn begin(&mut self, now: Time) {
        (self.since, self.delivered, self.app_limited) = (Some(now), 0, false);
    }
}
