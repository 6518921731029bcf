//! Go-back-N: the receiver drops packets out of order and NACKs once per ePSN, and the sender goes
//! back to the first missing packet (IBTA vol. 1, 9.7.5.2.8).

use braid_wire::Psn;

use super::report::Report;
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

#[derive(Clone, Debug, Default)]
pub(crate) struct GoBackN {
    /// The ePSN of the last NACK.
    nacked: Option<Psn>,
}

impl GoBackN {
    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        let epsn = report.cumulative;
        if report.has_hole() && self.nacked.is_none_or(|nacked| nacked < epsn) {
            self.nacked = Some(epsn);
            window.lose_from(epsn, usize::MAX, lost);
        }
    }

    pub(super) fn on_timeout(&mut self, window: &mut Window, lost: &mut dyn FnMut(&Segment)) {
        window.lose_from(window.una(), usize::MAX, lost);
    }
}
