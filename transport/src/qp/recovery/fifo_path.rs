//! A path is a queue: once a packet of it has arrived, whatever was sent on it before has arrived too
//! or never will (Themis, section 3.2: under a deterministic policy a PSN of the same residue proves
//! the loss). The sender knows which path each packet took, so it holds under any policy.
//!
//! A path from which nothing arrives any more proves nothing. There the time-out decides, for each
//! packet on its own and as soon as a later one of any path has arrived.

use super::Report;
use crate::qp::per_path::PerPath;
use crate::qp::segment::Segment;
use crate::qp::window::Window;

#[derive(Clone, Debug, Default)]
pub(crate) struct FifoPath {
    /// The order of the newest transmission that has certainly arrived.
    newest: PerPath<u64>,
}

impl FifoPath {
    pub(super) fn on_arrival(&mut self, segment: &Segment) {
        let newest = self.newest.entry(segment.path);
        *newest = segment.order.max(*newest);
    }

    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        window.lose_overtaken(lost, |segment, _| {
            let newest = self.newest.get(segment.path);
            newest.is_some_and(|newest| segment.order < *newest) || report.is_overdue(segment)
        });
    }

    pub(super) fn trim(&mut self) {
        // Orders never repeat, so forgetting them can only hide a loss, and nothing is under way.
        self.newest = PerPath::default();
    }
}
