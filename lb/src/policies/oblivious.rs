//! Oblivious spraying: a random path for every batch. Assumes nothing about the fabric and ignores
//! feedback.

use braid_wire::PathId;

use crate::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};

pub(crate) struct ObliviousFactory;

impl PathPolicyFactory for ObliviousFactory {
    fn name(&self) -> &str {
        "oblivious"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Oblivious)
    }
}

#[derive(Debug)]
struct Oblivious;

impl PathPolicy for Oblivious {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        paths.random(rng)
    }

    fn foresee(&self, paths: &Paths, rng: &PathRng) -> Option<PathId> {
        Some(paths.random(&mut rng.clone()))
    }
}
