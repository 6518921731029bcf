//! The reordering window: the time for which an overtaken segment may still be late.
//!
//! The window follows RACK's (RFC 8985, section 6.2, step 4). Duplicates after retransmissions show
//! that the sender was too quick, and the window grows, once per round trip. A run of recoveries
//! without duplicates shows that the network reorders less, and the window shrinks back.

use std::time::Duration;

use braid_wire::Time;

/// Maximum factor of the thresholds.
const MOST: u32 = 16;
/// Number of recoveries without a spurious retransmission after which the factor is reset (RFC
/// 8985: 16).
const CALM_RECOVERIES: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReorderingWindow {
    factor: u32,
    /// Time before which the factor does not grow again.
    settled_at: Time,
    /// Number of recoveries since the last spurious retransmission.
    calm: u32,
}

impl ReorderingWindow {
    pub(crate) fn new() -> Self {
        ReorderingWindow { factor: 1, settled_at: Time::ZERO, calm: 0 }
    }

    /// Factor of the reordering thresholds, in packets and in time: 1 to 16.
    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    /// Handles spurious retransmissions.
    pub(crate) fn on_spurious(&mut self, now: Time, rtt: Duration) {
        self.calm = 0;
        if now >= self.settled_at {
            self.factor = (self.factor * 2).min(MOST);
            self.settled_at = now + rtt;
        }
    }

    /// Handles a recovery: segments were declared lost.
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
    fn spurious_retransmissions_widen_it_once_a_round_trip() {
        let mut window = ReorderingWindow::new();
        let now = Time::from_nanos(1_000_000);
        window.on_spurious(now, RTT);
        window.on_spurious(now, RTT);
        assert_eq!(window.factor(), 2);
        window.on_spurious(now + RTT, RTT);
        assert_eq!(window.factor(), 4);
    }

    #[test]
    fn calm_recoveries_bring_it_back() {
        let mut window = ReorderingWindow::new();
        window.on_spurious(Time::ZERO, RTT);
        for _ in 0..CALM_RECOVERIES {
            assert_eq!(window.factor(), 2);
            window.on_recovery();
        }
        assert_eq!(window.factor(), 1);
    }
}
