//! Cuts of a window, at most one in a round trip (Swift, section 3.1).

use std::time::Duration;

use braid_wire::Time;

/// When the next cut may come, and how deep one goes at most.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    max_cut_percent: u32,
    /// The latest sample.
    rtt: Duration,
    last: Option<Time>,
}

impl Cuts {
    /// None takes more than so many percent of the window.
    pub(crate) fn new(max_cut_percent: u32) -> Self {
        Cuts { max_cut_percent: max_cut_percent.min(100), rtt: Duration::ZERO, last: None }
    }

    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    pub(crate) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Whether there has not been any.
    pub(crate) fn is_none(&self) -> bool {
        self.last.is_none()
    }

    /// What the deepest leaves of the window.
    pub(crate) fn least_share(&self) -> f64 {
        1.0 - f64::from(self.max_cut_percent) / 100.0
    }

    /// Whether the window may be cut now; if so, it is.
    pub(crate) fn allow(&mut self, now: Time) -> bool {
        let allowed = self.last.is_none_or(|last| now - last >= self.rtt);
        if allowed {
            self.force(now);
        }
        allowed
    }

    /// The window is cut now, whenever it was before.
    pub(crate) fn force(&mut self, now: Time) {
        self.last = Some(now);
    }
}
