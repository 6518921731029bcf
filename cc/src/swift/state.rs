//! The state of Swift for one subflow.

use std::time::Duration;

use braid_wire::Time;

use super::SwiftConfig;
use crate::base_rtt::BaseRtt;
use crate::cuts::Cuts;
use crate::undo::Undo;
use crate::{AckSample, Controller, Loss, Metrics, RttSample, Spurious, Subflow};

/// The base target of htsim and, as this crate's choice, a minimum in base round trips. Without the
/// minimum, no round trip on a longer network would be in time.
const BASE_TARGET: Duration = Duration::from_micros(20);
const BASE_TARGET_IN_BASE_RTTS: u32 = 2;
/// Initial window (RFC 6928).
const START_PACKETS: u64 = 10;
/// Divisor of the base target that gives the increase per hop.
const BASE_PER_HOP: f64 = 6.55;
/// Increase of the target at the minimum window, in base targets.
const FLOW_RANGE: u32 = 5;

/// The state of one subflow. Invariant: `min <= window <= max`, in bytes.
#[derive(Clone, Debug)]
pub struct Swift {
    config: SwiftConfig,
    packet: f64,
    window: f64,
    base_rtt: BaseRtt,
    /// Bytes acknowledged since the last comparison of a round trip.
    acked: u64,
    cuts: Cuts,
    /// The window before a reduction for losses.
    undo: Undo<f64>,
    /// Time-outs since the last acknowledgement.
    timeouts: u32,
}

impl Swift {
    /// Creates a controller with the initial window.
    pub fn new(config: SwiftConfig, subflow: &Subflow) -> Self {
        let packet = subflow.packet_bytes.max(1);
        let config = SwiftConfig { max_window: config.max_window.max(packet), ..config };
        let start = config.start_window.unwrap_or(START_PACKETS.saturating_mul(packet));
        let mut swift = Swift {
            config,
            packet: packet as f64,
            window: 0.0,
            base_rtt: BaseRtt::new(None),
            acked: 0,
            cuts: Cuts::new(config.max_cut_percent),
            undo: Undo::default(),
            timeouts: 0,
        };
        swift.set_window(start as f64);
        swift
    }

    fn set_window(&mut self, bytes: f64) {
        let min = self.packet * self.min_packets();
        self.window = bytes.clamp(min, self.config.max_window as f64);
    }

    fn min_packets(&self) -> f64 {
        f64::from(self.config.min_percent.clamp(1, 100)) / 100.0
    }

    /// Returns the target for the current window in seconds (section 3.5): `base + hops x hop +
    /// min(range, alpha / sqrt(window) + beta)`. The last term falls from the full range at the
    /// minimum window to zero at `flow_max` packets.
    pub(crate) fn target(&self) -> f64 {
        let base_target = self.base_target();
        let base = base_target.as_secs_f64();
        let hop = self.config.per_hop.map_or(base / BASE_PER_HOP, |hop| hop.as_secs_f64());
        let range = self.config.flow_range.unwrap_or(base_target.saturating_mul(FLOW_RANGE));
        let inverse = |packets: f64| 1.0 / packets.sqrt();
        let [least, most] =
            [self.min_packets(), f64::from(self.config.flow_max.max(1))].map(inverse);
        let flow = match least > most {
            true => (inverse(self.window / self.packet) - most) / (least - most),
            false => 0.0,
        };
        base + f64::from(self.config.hops) * hop + range.as_secs_f64() * flow.clamp(0.0, 1.0)
    }

    fn base_target(&self) -> Duration {
        let long = self.base_rtt.get().unwrap_or_default().saturating_mul(BASE_TARGET_IN_BASE_RTTS);
        self.config.base_target.unwrap_or(BASE_TARGET.max(long))
    }

    /// Runs algorithm 1. `delay` is compared with the target, and `sample` is the latest round
    /// trip.
    pub(crate) fn on_delay(&mut self, ack: &AckSample, delay: Duration, sample: RttSample) {
        self.cuts.on_rtt(sample.rtt);
        if self.config.base_target.is_none() {
            self.base_rtt.on_sample(ack.now, sample.sent_at, sample.rtt);
        }
        let acked = std::mem::take(&mut self.acked) as f64;
        let (delay, target) = (delay.as_secs_f64(), self.target());
        if delay >= target {
            let beta = f64::from(self.config.beta_percent.min(100)) / 100.0;
            let share = 1.0 - beta * (delay - target) / delay;
            let share = share.max(self.cuts.least_share());
            if self.cut(ack.now, share) {
                self.undo.change(|before| *before *= share);
            }
        } else if !ack.app_limited {
            let step = f64::from(self.config.increase) * self.packet;
            self.set_window(self.window + step * acked / self.window.max(self.packet));
        }
    }

    /// Adds bytes to those that the next comparison covers.
    pub(crate) fn on_acked(&mut self, bytes: u64) {
        self.timeouts = 0;
        self.acked = self.acked.saturating_add(bytes);
    }

    /// Reduces the window to `share`, at most once per round trip. Returns whether it does.
    fn cut(&mut self, now: Time, share: f64) -> bool {
        let allowed = self.cuts.allow(now);
        if allowed {
            self.set_window(self.window * share);
        }
        allowed
    }
}

impl Controller for Swift {
    fn on_ack(&mut self, ack: &AckSample) {
        self.on_acked(ack.bytes);
        if let Some(sample) = ack.rtt {
            self.on_delay(ack, sample.rtt, sample);
        }
    }

    /// Applies the maximum reduction (section 3.4).
    fn on_loss(&mut self, loss: &Loss) {
        let before = self.window;
        let cut = self.cut(loss.now, self.cuts.least_share());
        self.undo.on_loss_of(loss, cut, self.cuts.rtt(), before);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        if let Some(before) = self.undo.on_spurious(spurious.packets) {
            self.set_window(before.max(self.window));
        }
    }

    /// Treats the first time-outs as losses. Later ones reset the window to its minimum (section
    /// 3.4).
    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        let before = self.window;
        if self.timeouts >= self.config.reset_after {
            self.set_window(0.0);
        } else if !self.cut(now, self.cuts.least_share()) {
            return;
        }
        self.undo.on_cut(now, self.cuts.rtt(), before, 0);
    }

    fn window(&self) -> u64 {
        let most = if self.base_rtt.is_probing() { self.packet } else { self.window };
        (self.window.min(most) as u64).max(1)
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: None }
    }
}
