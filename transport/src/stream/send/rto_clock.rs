//! The retransmission timer of a sending stream (RFC 6298, section 5).

use std::time::Duration;

use braid_wire::Time;

/// Number of time-outs in a row after which a stream sends only probes and leaves the peer's
/// receive buffer to other queue pairs. TCP's window is one segment after the first time-out (RFC
/// 5681, section 3.1), but that time-out may be spurious.
const SILENT: u8 = 2;

/// The retransmission timer, and the time-outs since something was acknowledged.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RtoClock {
    /// Time at which the timer expires. `None`: it does not run.
    pub(crate) deadline: Option<Time>,
    /// Time at which the timer was started.
    pub(crate) started_at: Time,
    /// Time at which the end of the stream was last checked for late segments.
    pub(crate) checked_at: Time,
    /// Number of time-outs in a row without progress.
    pub(crate) timeouts: u8,
    /// Total length of these time-outs.
    pub(crate) waited: Duration,
    /// The longest round trip known during these time-outs. Older samples expire while a peer is
    /// silent.
    pub(crate) max_rtt: Duration,
}

impl RtoClock {
    /// Restarts the timer with this time-out.
    pub(crate) fn start(&mut self, now: Time, rto: Duration) {
        self.started_at = now;
        self.deadline = Some(now + rto);
    }

    /// Resets the count of time-outs.
    pub(crate) fn forget_timeouts(&mut self) {
        (self.timeouts, self.waited, self.max_rtt) = (0, Duration::ZERO, Duration::ZERO);
    }

    /// Whether the peer has been silent for so long that the stream sends only probes.
    pub(crate) fn is_silent(&self) -> bool {
        self.timeouts >= SILENT
    }
}
