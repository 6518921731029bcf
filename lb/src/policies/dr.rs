//! Destination rotation in its host form (OFAN, section 6.1): round robin with a pointer per destination that begins
//! anywhere, so that senders to one destination do not take the same paths at once. It assumes equivalent paths.

use super::round_robin::RoundRobin;
use crate::{PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements};

pub(crate) struct Factory;

impl PathPolicyFactory for Factory {
    fn name(&self) -> &str {
        "dr"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(RoundRobin::from(rng.below(paths.len())))
    }
}
