//! The policy that was added by the recipe is offered by its name, and is the one that runs.

use braid_lb::{Batch, LbPolicy, PathId, PathSet, Time, policy_names};

#[test]
fn the_policy_is_offered_by_name_and_runs() {
    assert!(policy_names().any(|name| name == "last"));
    let policy: LbPolicy = "last".parse().unwrap();
    assert_eq!(policy, LbPolicy::LAST);
    let mut set = PathSet::new(policy, 8, 1).unwrap();
    let stream = set.admit();
    for psn in 0..16 {
        let batch = Batch { now: Time::ZERO, psn, segments: 1 };
        assert_eq!(set.pick(stream, batch), PathId::new(7));
    }
}
