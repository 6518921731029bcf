//! Loss detection of a stream, and the outcomes that its path set has not heard of.

use braid_lb::{Outcome, Rails, StreamId};
use braid_wire::{PathId, Time};

use super::recovery::Detector;
use super::spurious::SpuriousDetector;
use super::suspects::Suspects;
use crate::idle::KEPT_ENTRIES;

/// The lost segments of a stream, as far as it knows.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) detector: Detector,
    pub(crate) spurious: SpuriousDetector,
    /// Transmissions that were declared lost without proof.
    pub(crate) suspects: Suspects,
    /// Outcomes that became known while the path set was not at hand.
    pub(crate) untold: Vec<(PathId, Outcome)>,
}

impl Losses {
    pub(crate) fn new(detector: Detector) -> Self {
        Losses {
            detector,
            spurious: SpuriousDetector::default(),
            suspects: Suspects::default(),
            untold: Vec::new(),
        }
    }

    /// Gives up the suspects: no acknowledgement will tell what became of them.
    pub(crate) fn forget_suspects(&mut self) {
        let untold = &mut self.untold;
        self.suspects.clear(|path, outcome| untold.push((path, outcome)));
    }

    /// Gives up the suspects of which no acknowledgement has told anything.
    pub(crate) fn forget_open(&mut self) {
        let untold = &mut self.untold;
        self.suspects.forget_open(|path, outcome| untold.push((path, outcome)));
    }

    /// Tells the path set the outcomes that it has not heard of.
    pub(crate) fn report(&mut self, stream: StreamId, now: Time, rails: &mut Rails) {
        for (path, outcome) in self.untold.drain(..) {
            rails.on_feedback(stream, now, path, outcome);
        }
    }

    /// Gives back memory that is not needed while nothing is in flight.
    pub(crate) fn trim(&mut self) {
        self.detector.trim();
        self.suspects.trim();
        self.untold.shrink_to(KEPT_ENTRIES);
    }
}
