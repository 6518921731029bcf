//! When slow start ends: HyStart++ (RFC 9406). Once round trips have become longer, the window grows on a quarter as fast; if they
//! stay so for five round trips, slow start is over before anything is lost.

use std::time::Duration;

use braid_wire::Time;

use crate::RttSample;

/// RFC 9406, section 4.3, with two exceptions. An acknowledgement is asked for four times in a small window, so four samples have to do
/// where the RFC has eight. And where round trips are shorter than its least increase, 4 ms, they are that themselves: in a data
/// centre nothing would ever be late.
const SAMPLES: u32 = 4;
const MIN_INCREASE: Duration = Duration::from_millis(4);
const MAX_INCREASE: Duration = Duration::from_millis(16);
const INCREASE_DIVISOR: u32 = 8;
const CONSERVATIVE_DIVISOR: f64 = 4.0;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// A round ends when something that left after its begin is acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowStart {
    began: Time,
    samples: u32,
    /// The shortest round trip of this round, and of the one before.
    shortest: Option<Duration>,
    before: Option<Duration>,
    conservative: Option<Conservative>,
}

/// Growth is slow, until it is known whether round trips stay longer.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The shortest round trip of the round that began it.
    baseline: Duration,
    rounds: u32,
}

impl SlowStart {
    /// What of the acknowledged bytes is added to the window.
    pub(super) fn share(&self) -> f64 {
        if self.conservative.is_some() { 1.0 / CONSERVATIVE_DIVISOR } else { 1.0 }
    }

    /// Returns whether slow start is over.
    pub(super) fn on_sample(&mut self, now: Time, sample: RttSample) -> bool {
        if sample.sent_at >= self.began {
            self.began = now;
            self.before = self.shortest.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds > CONSERVATIVE_ROUNDS {
                    return true;
                }
            }
        }
        self.samples += 1;
        let shortest = self.shortest.map_or(sample.rtt, |shortest| shortest.min(sample.rtt));
        self.shortest = Some(shortest);
        if self.samples >= SAMPLES {
            self.judge(shortest);
        }
        false
    }

    fn judge(&mut self, shortest: Duration) {
        match (self.conservative, self.before) {
            (Some(Conservative { baseline, .. }), _) if shortest < baseline => {
                self.conservative = None;
            }
            (None, Some(before)) => {
                let least = MIN_INCREASE.min(before);
                let increase = (before / INCREASE_DIVISOR).clamp(least, MAX_INCREASE);
                if shortest >= before.saturating_add(increase) {
                    self.conservative = Some(Conservative { baseline: shortest, rounds: 0 });
                }
            }
            _ => {}
        }
    }
}
