//! Round robin over the paths, common to all queue pairs. Assumes equivalent paths.

use braid_wire::PathId;

use crate::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};

pub(crate) struct RoundRobinFactory;

impl PathPolicyFactory for RoundRobinFactory {
    fn name(&self) -> &str {
        "round-robin"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(RoundRobin::from(0))
    }
}

/// A pointer into the live paths, shared by all streams of a path set.
#[derive(Debug)]
pub(super) struct RoundRobin {
    /// The slot of the next batch, before reduction to the number of live paths.
    next: usize,
}

impl RoundRobin {
    pub(super) fn from(start: usize) -> Self {
        RoundRobin { next: start }
    }
}

impl PathPolicy for RoundRobin {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        let slot = self.next % paths.len();
        self.next = slot + 1;
        paths.at(slot)
    }
}
