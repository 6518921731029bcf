//! The time that sending ends spend waiting for their retransmission timers: silence that a
//! time-out or a tail loss probe ends.

use std::collections::HashMap;

use crate::packet::EndId;
use crate::time::Ps;

/// The time since an end has sent or received a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    since: Ps,
    /// The number of retransmissions when a timer last fired, if nothing has been sent or received
    /// since then.
    at_timer: Option<u64>,
}

/// A timer that fired before an end broke its silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiredTimer {
    pub(crate) silent_since: Ps,
    /// The number of retransmissions until then.
    pub(crate) retransmitted: u64,
}

impl Silence {
    pub(crate) fn on_timer(&mut self, retransmitted: u64) {
        self.at_timer = Some(retransmitted);
    }

    #[inline]
    pub(crate) fn on_received(&mut self, now: Ps) {
        *self = Silence { since: now, at_timer: None };
    }

    /// Returns the timer that fired before this packet, if there is one.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Ps) -> Option<FiredTimer> {
        let silent_since = std::mem::replace(&mut self.since, now);
        let retransmitted = self.at_timer.take()?;
        Some(FiredTimer { silent_since, retransmitted })
    }
}

/// The waits of all ends.
#[derive(Debug, Default)]
pub(crate) struct TimeoutWaits(HashMap<u32, Vec<(Ps, Ps)>>);

impl TimeoutWaits {
    /// Records that a timer has ended the silence of an end.
    pub(crate) fn record(&mut self, end: EndId, from: Ps, to: Ps) {
        self.0.entry(end.0).or_default().push((from, to));
    }

    /// Returns the part of an interval that an end has waited.
    pub(crate) fn within(&self, end: EndId, from: Ps, to: Ps) -> Ps {
        let waits = self.0.get(&end.0).into_iter().flatten();
        let parts = waits.map(|(begin, end)| (*end).min(to).since((*begin).max(from)));
        parts.fold(Ps::ZERO, |sum, part| sum + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_counts_unless_a_packet_arrives_after_it() {
        let mut silence = Silence::default();
        assert!(silence.on_sent(Ps(10)).is_none());
        silence.on_timer(3);
        let timer = silence.on_sent(Ps(50)).unwrap();
        assert_eq!((timer.silent_since, timer.retransmitted), (Ps(10), 3));
        assert!(silence.on_sent(Ps(60)).is_none());
        silence.on_timer(3);
        silence.on_received(Ps(70));
        assert!(silence.on_sent(Ps(80)).is_none());
    }

    #[test]
    fn only_the_part_inside_counts() {
        let mut waits = TimeoutWaits::default();
        waits.record(EndId(2), Ps(10), Ps(20));
        waits.record(EndId(2), Ps(20), Ps(40));
        waits.record(EndId(4), Ps(0), Ps(100));
        assert_eq!(waits.within(EndId(2), Ps(15), Ps(30)), Ps(15));
        assert_eq!(waits.within(EndId(2), Ps(0), Ps(10)), Ps(0));
        assert_eq!(waits.within(EndId(6), Ps(0), Ps(10)), Ps(0));
    }
}
