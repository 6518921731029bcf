//! Go-back-N: a packet out of order is dropped and NACKed by the receiver, once per ePSN, and the
//! sender goes back to the first that is missing (IBTA vol. 1, 9.7.5.2.8).

use braid_wire::Psn;

use super::report::Report;
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

#[derive(Clone, Debug, Default)]
pub(crate) struct GoBackN {
    /// The ePSN that was NACKed last.
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
