//! QuickAdapt: in severe congestion, the window becomes what the network has just delivered.

use std::time::Duration;

use braid_wire::Time;

use super::network::Network;

/// Late packets that trigger QuickAdapt without trimming have this many targets of delay.
const LATE_TARGETS: f64 = 4.0;
/// `qa_gate`: a period that delivers this share of the maximum window is no severe congestion.
const GATE: f64 = 1.0 / 8.0;

/// The current period, and the bytes whose marks do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct QuickAdapt {
    /// The end of the period. `None` before the first one.
    ends: Option<Time>,
    /// Bytes that the period has delivered.
    achieved: f64,
    /// Whether the sender had too little to send, so that `achieved` says nothing.
    is_idle: bool,
    /// Whether a packet was trimmed.
    is_triggered: bool,
    /// Bytes that were in flight when QuickAdapt last set the window. They show the queue for
    /// which it did so.
    to_ignore: f64,
    ignored: f64,
    /// Bytes in flight after the latest acknowledgement.
    in_flight: f64,
}

/// An event as QuickAdapt sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) now: Time,
    /// Whether the packet was trimmed.
    pub(super) is_trimmed: bool,
    /// Whether the packet was marked or trimmed.
    pub(super) is_marked: bool,
    /// The queueing delay in seconds.
    pub(super) delay: f64,
}

/// The decision of QuickAdapt.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Decision {
    /// The other rules apply.
    Pass,
    /// The event shows an old queue, so the other rules do not apply.
    Ignore,
    /// The window becomes this many bytes.
    Set(f64),
}

impl QuickAdapt {
    /// Counts acknowledged bytes. `in_flight`: the bytes that are still in flight. `is_idle`: the
    /// sender had too little to send.
    pub(super) fn on_acked(&mut self, bytes: f64, in_flight: f64, is_idle: bool) {
        self.in_flight = in_flight;
        self.achieved += bytes;
        self.ignored += bytes;
        self.is_idle |= is_idle;
    }

    /// Counts lost bytes.
    pub(super) fn on_lost(&mut self, bytes: f64) {
        self.ignored += bytes;
    }

    /// Processes an event whose bytes were counted before. `trims`: switches trim, so that late
    /// packets alone are no severe congestion.
    pub(super) fn judge(&mut self, signal: &Signal, network: &Network, trims: bool) -> Decision {
        self.is_triggered |= signal.is_trimmed;
        if signal.is_marked && self.ignored < self.to_ignore {
            return Decision::Ignore;
        }
        if self.ends.is_some_and(|ends| signal.now < ends) {
            return Decision::Pass;
        }
        let is_late = !trims && !self.is_idle && signal.delay > LATE_TARGETS * network.target;
        let achieved = self.achieved;
        let is_severe = self.ends.is_some()
            && (self.is_triggered || is_late)
            && achieved < GATE * network.max_window;
        let period = Duration::from_secs_f64(network.base_rtt + network.target);
        (self.ends, self.achieved, self.is_idle) = (Some(signal.now + period), 0.0, false);
        if !is_severe {
            return Decision::Pass;
        }
        (self.is_triggered, self.to_ignore, self.ignored) = (false, self.in_flight, 0.0);
        Decision::Set(achieved)
    }
}
