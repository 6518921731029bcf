//! When slow start ends: HyStart++ (RFC 9406). Once round trips have become longer, the window grows on a quarter as fast; if they
//! stay so for five round trips, slow start is over before anything is lost.

use std::time::Duration;

use braid_wire::Time;

use crate::RttSample;

/// RFC 9406, section 4.3, but for its eight samples that a round trip is judged by: an acknowledgement is asked for four times in a
/// small window. They are the latest four, not the first of the round trip, because packets leave spread over it, and those at its end
/// are the first to meet a queue. And where round trips are shorter than the least increase, 4 ms, it is one of them: in a data
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
    /// The shortest round trip of this round, and of the one before.
    shortest: Option<Duration>,
    before: Option<Duration>,
    /// Samples in a row that were late, and the shortest of them.
    late: u32,
    shortest_late: Duration,
    conservative: Option<Conservative>,
}

/// Growth is slow, until it is known whether round trips stay longer.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// A shorter round trip ends it.
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
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds > CONSERVATIVE_ROUNDS {
                    return true;
                }
            }
        }
        let shortest = self.shortest.map_or(sample.rtt, |shortest| shortest.min(sample.rtt));
        self.shortest = Some(shortest);
        match self.conservative {
            Some(Conservative { baseline, .. }) if sample.rtt < baseline => {
                (self.conservative, self.late) = (None, 0);
            }
            None => self.look_for_queue(sample.rtt),
            Some(_) => {}
        }
        false
    }

    fn look_for_queue(&mut self, rtt: Duration) {
        let Some(before) = self.before else { return };
        let increase = (before / INCREASE_DIVISOR).clamp(MIN_INCREASE.min(before), MAX_INCREASE);
        if rtt < before.saturating_add(increase) {
            self.late = 0;
            return;
        }
        self.shortest_late = if self.late == 0 { rtt } else { self.shortest_late.min(rtt) };
        self.late += 1;
        if self.late >= SAMPLES {
            self.conservative = Some(Conservative { baseline: self.shortest_late, rounds: 0 });
        }
    }
}
