//! A path policy from outside the crate, with a parameter, on a simulated fabric.

use braid_lb::{Batch, LbPolicy, PathId, PathPolicy, PathPolicyFactory, PathRng, Paths, StreamId};
use braid_sim::switch::Policy;

use super::spines::{BYTES, SPINES, bytes_by_spine};

/// The same slot for every batch.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    slot: usize,
}

impl PathPolicy for Fixed {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(self.slot)
    }
}

impl PathPolicyFactory for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(*self)
    }
}

#[test]
fn the_simulator_runs_the_policy_that_it_was_given() {
    let mut reached = Vec::new();
    for slot in 0..SPINES {
        let lb = LbPolicy::custom(Box::leak(Box::new(Fixed { slot })));
        let bytes = bytes_by_spine(lb, Policy::Source, Vec::new());
        let used: Vec<usize> = (0..SPINES).filter(|spine| bytes[*spine] > 0).collect();
        assert_eq!(used.len(), 1, "slot {slot}: {bytes:?}");
        assert!(bytes[used[0]] > BYTES, "{bytes:?}");
        reached.extend(used);
    }
    reached.sort_unstable();
    assert_eq!(reached, [0, 1, 2, 3], "each slot is a spine of its own");
    assert!(
        bytes_by_spine(LbPolicy::ROUND_ROBIN, Policy::Source, Vec::new())
            .iter()
            .all(|bytes| *bytes > 0)
    );
}
