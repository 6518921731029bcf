//! The increases of the window. They are collected and applied every few packets.

use std::time::Duration;

use braid_wire::Time;

use super::network::Network;

/// Packets per round trip that the fair increase adds on the reference network.
const FAIR: f64 = 5.0;
/// Packets per round trip that the proportional increase adds there without any delay, in targets
/// of the reference.
const PROPORTIONAL: f64 = 4.0;
/// Bytes per acknowledged byte that the fast increase adds there.
const FAST: f64 = 0.25;
/// Packets that each period adds there.
const ADDITIVE: f64 = 0.15;
/// Acknowledged packets after which collected increases are applied.
const APPLIED_AFTER: f64 = 8.0;
/// Delays below this share of the base round trip count as none: 1 us of 12 us (htsim).
const NO_DELAY: f64 = 1.0 / 12.0;

/// The collected increases.
#[derive(Clone, Debug, Default)]
pub(super) struct Increase {
    /// Collected increases in square bytes: divided by the window, they are bytes.
    collected: f64,
    /// Bytes acknowledged since increases were last applied.
    received: f64,
    /// The time of the last additive increase. `None` before the first event.
    added_at: Option<Time>,
    /// Bytes acknowledged in a row without delay.
    undelayed: f64,
    /// Whether the fast increase is active.
    is_fast: bool,
}

impl Increase {
    /// Counts acknowledged bytes.
    pub(super) fn on_acked(&mut self, bytes: f64) {
        self.received += bytes;
    }

    /// Drops what was collected, because QuickAdapt has decided.
    pub(super) fn restart(&mut self) {
        (self.collected, self.received) = (0.0, 0.0);
    }

    /// Ends the fast increase.
    pub(super) fn slow_down(&mut self) {
        (self.undelayed, self.is_fast) = (0.0, false);
    }

    /// Collects the increase for unmarked bytes. Returns the fast increase, which is applied at
    /// once. `window`: the window in bytes.
    pub(super) fn collect(
        &mut self,
        network: &Network,
        (bytes, packet): (f64, f64),
        delay: f64,
        window: f64,
    ) -> f64 {
        let step = if delay >= network.target {
            FAIR * network.size
        } else {
            if let Some(fast) = self.fast(network, bytes, delay, window) {
                return fast;
            }
            let room = 1.0 - delay / network.target;
            PROPORTIONAL * network.size * network.length * room
        };
        // At most a doubling in a round trip. This crate's choice.
        self.collected += bytes * (step * packet).min(window);
        0.0
    }

    /// Returns the fast increase, after a window without delay.
    fn fast(&mut self, network: &Network, bytes: f64, delay: f64, window: f64) -> Option<f64> {
        if delay >= NO_DELAY * network.base_rtt {
            self.slow_down();
            return None;
        }
        self.undelayed += bytes;
        self.is_fast |= self.undelayed > window;
        self.is_fast.then_some(FAST * network.size * bytes)
    }

    /// Returns the bytes that the window grows by now. `may_add`: whether the window is used, so
    /// that it may grow without acknowledgements that ask for it.
    pub(super) fn apply(
        &mut self,
        now: Time,
        network: &Network,
        (window, packet): (f64, f64),
        may_add: bool,
    ) -> f64 {
        let added_at = *self.added_at.get_or_insert(now);
        let is_due = now - added_at >= Duration::from_secs_f64(network.rtt);
        if !is_due && self.received <= APPLIED_AFTER * packet {
            return 0.0;
        }
        let mut bytes = self.collected / window;
        if is_due {
            self.added_at = Some(now);
            bytes += if may_add { ADDITIVE * packet * network.size } else { 0.0 };
        }
        self.restart();
        bytes
    }
}
