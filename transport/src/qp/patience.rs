//! How long a segment that others overtook may still be late rather than lost.
//!
//! As RACK's reordering window (RFC 8985, section 6.2, step 4): duplicates that the peer reports
//! after retransmissions say that we were too quick, and patience grows, once a round trip; a run of
//! recoveries without any says that the network has calmed down, and it goes back.

use std::time::Duration;

use braid_wire::Time;

/// Most that the thresholds are multiplied with.
const MOST: u32 = 16;
/// Recoveries without a spurious retransmission after which patience is back to normal (RFC 8985: 16).
const CALM_RECOVERIES: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    factor: u32,
    /// The peer's count of duplicates, as it said last.
    duplicates: u32,
    /// No further growth before.
    settled_at: Time,
    /// Recoveries since the last sign of a spurious retransmission.
    calm: u32,
    /// Retransmissions that a duplicate may be explained by.
    suspects: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Patience { factor: 1, duplicates: 0, settled_at: Time::ZERO, calm: 0, suspects: 0 }
    }

    /// What reordering thresholds, in packets and in time, are multiplied with: 1 to 16.
    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    pub(crate) fn on_retransmission(&mut self) {
        self.suspects = self.suspects.saturating_add(1);
    }

    /// An acknowledgement reports so many duplicates in all.
    pub(crate) fn on_duplicates(&mut self, now: Time, reported: u32, rtt: Duration) {
        let new = reported.wrapping_sub(self.duplicates);
        // An overtaken ack reports fewer than we know of.
        if new == 0 || new > u32::MAX / 2 {
            return;
        }
        self.duplicates = reported;
        let spurious = new.min(self.suspects);
        self.suspects -= spurious;
        if spurious == 0 {
            return; // The network itself duplicates.
        }
        self.calm = 0;
        if now >= self.settled_at {
            self.factor = (self.factor * 2).min(MOST);
            self.settled_at = now + rtt;
        }
    }

    /// Segments were found lost.
    pub(crate) fn on_recovery(&mut self) {
        self.calm += 1;
        if self.calm >= CALM_RECOVERIES {
            self.factor = 1;
            self.calm = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(100);

    #[test]
    fn spurious_retransmissions_teach_patience_once_a_round_trip() {
        let mut patience = Patience::new();
        for _ in 0..4 {
            patience.on_retransmission();
        }
        let now = Time::from_nanos(1_000_000);
        patience.on_duplicates(now, 1, RTT);
        patience.on_duplicates(now, 2, RTT);
        assert_eq!(patience.factor(), 2);
        patience.on_duplicates(now + RTT, 3, RTT);
        assert_eq!(patience.factor(), 4);
    }

    #[test]
    fn duplicates_without_retransmissions_are_the_networks() {
        let mut patience = Patience::new();
        patience.on_duplicates(Time::ZERO, 5, RTT);
        assert_eq!(patience.factor(), 1);
    }

    #[test]
    fn calm_recoveries_bring_it_back() {
        let mut patience = Patience::new();
        patience.on_retransmission();
        patience.on_duplicates(Time::ZERO, 1, RTT);
        for _ in 0..CALM_RECOVERIES {
            assert_eq!(patience.factor(), 2);
            patience.on_recovery();
        }
        assert_eq!(patience.factor(), 1);
    }
}
