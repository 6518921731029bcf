//! Loss detection of a stream, and the outcomes to report to its path set.

use braid_lb::{Outcome, Rails, StreamId};
use braid_wire::{PathId, Time};

use super::probes::Probes;
use super::recovery::Detector;
use super::spurious::SpuriousDetector;
use super::suspects::Suspects;
use crate::idle::KEPT_ENTRIES;

/// The loss detection state of a stream.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) detector: Detector,
    pub(crate) spurious: SpuriousDetector,
    pub(crate) probes: Probes,
    /// Transmissions that were declared lost without proof.
    pub(crate) suspects: Suspects,
    /// Outcomes that are to be reported to the path set.
    pub(crate) unreported: Vec<(PathId, Outcome)>,
}

impl Losses {
    pub(crate) fn new(detector: Detector) -> Self {
        Losses {
            detector,
            spurious: SpuriousDetector::default(),
            probes: Probes::default(),
            suspects: Suspects::default(),
            unreported: Vec::new(),
        }
    }

    /// Drops the suspects, because no acknowledgement will decide about them.
    pub(crate) fn forget_suspects(&mut self) {
        let unreported = &mut self.unreported;
        self.suspects.clear(|path, outcome| unreported.push((path, outcome)));
    }

    /// Drops the suspects that were not acknowledged.
    pub(crate) fn forget_open(&mut self) {
        let unreported = &mut self.unreported;
        self.suspects.forget_open(|path, outcome| unreported.push((path, outcome)));
    }

    /// Reports the pending outcomes to the path set.
    pub(crate) fn report(&mut self, stream: StreamId, now: Time, rails: &mut Rails) {
        for (path, outcome) in self.unreported.drain(..) {
            rails.on_feedback(stream, now, path, outcome);
        }
    }

    /// Releases memory that is not needed while nothing is in flight.
    pub(crate) fn trim(&mut self) {
        self.detector.trim();
        self.suspects.trim();
        self.unreported.shrink_to(KEPT_ENTRIES);
    }
}
