//! The bandwidth that a stream has: the most that was delivered in one round trip, of the latest 8 to 16 (as BBR's filter of
//! the delivery rate, Cardwell et al., CACM 2017).

use std::time::Duration;

use braid_wire::Time;

/// Round trips after which the older half of what is remembered goes.
const ROUNDS: u32 = 8;

/// Bytes per second, 0: not yet known.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    /// When the round trip began that is counted.
    since: Option<Time>,
    delivered: u64,
    /// Its end tells nothing less than what is known: the stream had not enough to send.
    app_limited: bool,
    rounds: u32,
    recent: f64,
    older: f64,
}

impl Bandwidth {
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.recent.max(self.older)
    }

    /// So many bytes are acknowledged; `rtt`: how long a round trip is counted.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u64, rtt: Duration, app_limited: bool) {
        let Some(since) = self.since else {
            // What comes now was sent before.
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
        if !self.app_limited {
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
