//! Destination rotation in its host form (OFAN, section 6.1): round robin with one pointer per
//! destination. The pointer starts at a random path, so that senders to one destination do not use
//! the same paths at once. Assumes equivalent paths.
//!
//! A path is picked for each packet, unless the user gives another quantum: the bound of the queues
//! (theorem 3) counts packets per pick. See `docs/spraying.md` for the curve.

use super::round_robin::RoundRobin;
use crate::{PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements};

pub(crate) struct DrFactory;

impl PathPolicyFactory for DrFactory {
    fn name(&self) -> &str {
        "dr"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, quantum: Some(1), ..Requirements::default() }
    }

    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(RoundRobin::from(rng.below(paths.len())))
    }
}
