//! End of slow start: HyStart++ (RFC 9406).
//!
//! When round trips become longer, the window grows at a quarter of the speed. If they stay longer
//! for five rounds, slow start ends before a loss.

use std::time::Duration;

use braid_wire::Time;

use crate::RttSample;

/// The constants of RFC 9406, section 4.3, with two differences:
///
/// - Four samples per round instead of eight, because a small window requests four
///   acknowledgements. They are the latest four of the round, because packets are paced and the
///   last ones meet a queue first.
/// - If round trips are shorter than the minimum increase of 4 ms, one round trip takes its place.
///   Otherwise HyStart++ would never act in a data centre.
const SAMPLES: u32 = 4;
const MIN_INCREASE: Duration = Duration::from_millis(4);
const MAX_INCREASE: Duration = Duration::from_millis(16);
const INCREASE_DIVISOR: u32 = 8;
const CONSERVATIVE_DIVISOR: f64 = 4.0;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The state of a round, which ends when a packet sent after its start is acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowStart {
    began: Time,
    /// The shortest round trip of this round and of the previous one.
    shortest: Option<Duration>,
    before: Option<Duration>,
    /// Number of consecutive late samples, and the shortest of them.
    late: u32,
    shortest_late: Duration,
    conservative: Option<Conservative>,
}

/// Conservative slow start: growth is slow until it is clear whether round trips stay longer.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// A shorter round trip ends this phase.
    baseline: Duration,
    rounds: u32,
}

impl SlowStart {
    /// Returns the share of the acknowledged bytes by which the window grows.
    pub(super) fn share(&self) -> f64 {
        if self.conservative.is_some() { 1.0 / CONSERVATIVE_DIVISOR } else { 1.0 }
    }

    /// Processes a sample. Returns whether slow start ends.
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
