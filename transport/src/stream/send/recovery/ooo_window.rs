//! PRO's out-of-order window (Algorithm 2): up to `wnd` packets behind the newest arrival may be
//! late, and older ones are lost. A duplicate shows that the window was too small and adds one. A
//! time-out shows that it was too large and halves it.
//!
//! The paper counts PSNs from `QP.tail`. This method counts transmissions. The two are equal until
//! something is retransmitted. From then on a retransmission may be late, too, instead of being
//! lost again at once.
//!
//! A spurious time-out says nothing about the window, which is then restored (Eifel, RFC 3522 and
//! 4015). Otherwise a host that paused for some milliseconds would cost a spurious retransmission
//! for each packet by which the window has to grow again.

use braid_wire::Time;

use super::report::{PROBES, Report};
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

/// The widest window of a receiver (`QpConfig::window`).
const WIDEST: u64 = 4096;

#[derive(Clone, Debug)]
pub(crate) struct OooWindow {
    wnd: u64,
    /// Time of the first time-out since the last acknowledgement, and the window before it.
    timed_out: Option<(Time, u64)>,
}

impl OooWindow {
    pub(super) fn new(wnd: u64) -> Self {
        OooWindow { wnd: wnd.clamp(1, WIDEST), timed_out: None }
    }

    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        if let Some((at, before)) = self.timed_out.take()
            && report.now - at < report.rtt
        {
            self.wnd = before; // a packet from before the time-out was acknowledged
        }
        self.wnd = (self.wnd + u64::from(report.spurious)).min(WIDEST);
        let wnd = self.wnd;
        window.lose_overtaken(lost, |segment, by| by > wnd || report.is_overdue(segment));
    }

    /// Returns the number of segments to retransmit at once.
    pub(super) fn on_timeout(&mut self, now: Time) -> usize {
        self.timed_out.get_or_insert((now, self.wnd));
        self.wnd = (self.wnd / 2).max(1);
        PROBES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_halves_the_window_but_leaves_one() {
        let mut method = OooWindow::new(9);
        for expected in [4, 2, 1, 1] {
            assert_eq!(method.on_timeout(Time::ZERO), PROBES);
            assert_eq!(method.wnd, expected);
        }
    }
}
