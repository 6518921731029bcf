//! The control parameters: window and pacing rate (section 5.6).

use std::time::Duration;

use super::config::BbrConfig;

/// The initial window (RFC 6928).
const START_PACKETS: f64 = 10.0;
/// The minimum window (section 2.8, `MinPipeCwnd`).
const MIN_PACKETS: f64 = 4.0;
/// The share of the bandwidth that is used, because queues would never drain at all of it (section
/// 2.5, `PacingMarginPercent`).
const PACED: f64 = 0.99;
/// The round trip before the first sample (section 5.6.2).
const FIRST_RTT: Duration = Duration::from_millis(1);
/// A quantum is what the rate carries in this time, within these limits (section 5.6.3).
const QUANTUM_SECONDS: f64 = 1e-3;
const QUANTUM_BYTES: f64 = 65_536.0;
const QUANTUM_PACKETS: f64 = 2.0;
/// Quanta that hosts hold for segmentation and reassembly (section 5.5.8.1).
const QUANTA: f64 = 3.0;

/// Invariant: four packets `<= window <=` the maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    /// Length of a packet in bytes.
    pub(super) packet: f64,
    start: f64,
    max: f64,
    window: f64,
    /// Bytes per second.
    pacing_rate: f64,
    has_rtt: bool,
}

impl Control {
    pub(super) fn new(config: &BbrConfig, packet: f64, gain: f64) -> Self {
        let start = config.start_window.map_or(START_PACKETS * packet, |start| start as f64);
        let max = config.max_window as f64;
        let mut control =
            Control { packet, start, max, window: 0.0, pacing_rate: 0.0, has_rtt: false };
        control.set_window(start);
        control.pacing_rate = gain * control.window / FIRST_RTT.as_secs_f64();
        control
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn set_window(&mut self, bytes: f64) {
        let least = self.least();
        self.window = bytes.clamp(least, least.max(self.max));
    }

    /// Returns the minimum window.
    pub(super) fn least(&self) -> f64 {
        MIN_PACKETS * self.packet
    }

    /// Returns the initial window.
    pub(super) fn start(&self) -> f64 {
        self.start
    }

    /// Returns the minimum volume in flight with which hosts can work in batches (section 5.5.8).
    pub(super) fn offload_budget(&self) -> f64 {
        let quantum = (self.pacing_rate * QUANTUM_SECONDS).min(QUANTUM_BYTES);
        (QUANTA * quantum.max(QUANTUM_PACKETS * self.packet)).max(self.least())
    }

    pub(super) fn bits_per_second(&self) -> u64 {
        (self.pacing_rate * 8.0) as u64
    }

    /// Takes the first round trip, which tells the initial rate.
    pub(super) fn on_rtt(&mut self, rtt: Duration, gain: f64) {
        if !self.has_rtt && !rtt.is_zero() {
            self.has_rtt = true;
            self.pacing_rate = gain * self.start / rtt.as_secs_f64();
        }
    }

    /// Sets the rate to `gain` times a bandwidth in bytes per second (section 5.6.2). Until the
    /// pipe is full it only rises.
    pub(super) fn pace(&mut self, bandwidth: f64, gain: f64, is_pipe_full: bool) {
        let rate = PACED * gain * bandwidth;
        if rate > 0.0 && (is_pipe_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }
}
