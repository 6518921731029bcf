//! Reductions of a window, at most one per round trip (Swift, section 3.1).

use std::time::Duration;

use braid_wire::Time;

/// The time of the last reduction and the maximum size of one.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    max_cut_percent: u32,
    /// The latest sample.
    rtt: Duration,
    last: Option<Time>,
}

impl Cuts {
    /// Limits each reduction to `max_cut_percent` of the window.
    pub(crate) fn new(max_cut_percent: u32) -> Self {
        Cuts { max_cut_percent: max_cut_percent.min(100), rtt: Duration::ZERO, last: None }
    }

    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    pub(crate) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Returns whether no reduction has happened yet.
    pub(crate) fn is_none(&self) -> bool {
        self.last.is_none()
    }

    /// Returns whether there was a reduction after `sent`, which the network had not seen then.
    pub(crate) fn came_after(&self, sent: Time) -> bool {
        self.last.is_some_and(|last| sent < last)
    }

    /// Returns the share of the window that remains after the largest reduction.
    pub(crate) fn least_share(&self) -> f64 {
        1.0 - f64::from(self.max_cut_percent) / 100.0
    }

    /// Returns whether the window may be reduced now, and records the reduction if so.
    pub(crate) fn allow(&mut self, now: Time) -> bool {
        let allowed = self.last.is_none_or(|last| now - last >= self.rtt);
        if allowed {
            self.force(now);
        }
        allowed
    }

    /// Records a reduction at `now`, even within a round trip of the last one.
    pub(crate) fn force(&mut self, now: Time) {
        self.last = Some(now);
    }
}
