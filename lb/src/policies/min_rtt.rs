//! The path with the lowest smoothed round-trip time that has window, as MPTCP's default scheduler picks subflows; what
//! stands for the window is said in `rank.rs`. It assumes nothing of the fabric.

use braid_wire::PathId;

use crate::{Batch, Order, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};

pub(crate) struct Factory;

impl PathPolicyFactory for Factory {
    fn name(&self) -> &str {
        "min-rtt"
    }

    fn requirements(&self) -> Requirements {
        // It counts what is on each path, so each batch has its own.
        Requirements { order: Order::Rank, shares_batches: false, quanta: 32 }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(MinRtt)
    }
}

#[derive(Debug)]
struct MinRtt;

impl PathPolicy for MinRtt {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.best()
    }
}
