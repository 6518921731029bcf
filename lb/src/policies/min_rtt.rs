//! The path with the lowest smoothed round-trip time that has space in its window, as MPTCP's
//! default scheduler picks subflows. `rank.rs` explains the substitute for the window. Assumes
//! nothing about the fabric.

use braid_wire::PathId;

use crate::{Batch, Order, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};

pub(crate) struct MinRttFactory;

impl PathPolicyFactory for MinRttFactory {
    fn name(&self) -> &str {
        "min-rtt"
    }

    fn requirements(&self) -> Requirements {
        // The policy counts the load of each path, so batches are not shared.
        Requirements { order: Order::Rank, quanta: 32, ..Requirements::default() }
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
