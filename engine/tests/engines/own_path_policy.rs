//! A path policy of the application.

use crate::pair::{Pair, configs};
use braid::paths::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};
use braid::{EngineConfig, LbPolicy, PathId, wr};

/// The last live path, for every batch.
#[derive(Debug)]
struct Last;

impl PathPolicy for Last {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(paths.len() - 1)
    }
}

struct LastFactory;

impl PathPolicyFactory for LastFactory {
    fn name(&self) -> &str {
        "last"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Last)
    }
}

/// Segments sent on each path, and those sent again on any, under a policy and over each datapath.
fn sent_by_path(lb: LbPolicy) -> Vec<([u64; 8], u64)> {
    let carried = |config: EngineConfig| {
        let p = Pair::new(&EngineConfig { lb, paths: 8, ..config });
        let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
        p.a.memory.write_at(0, &data).unwrap();
        let piece = p.a.memory.slice(0..1 << 20).unwrap();
        p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
        assert!(p.b.bytes(0..1 << 20) == data);
        let mut sent = [0; 8];
        for path in p.a.engine.paths().iter().flat_map(|to| &to.paths) {
            sent[usize::from(path.path.get())] += path.counters.sent;
        }
        (sent, p.a.qp.counters().retransmitted)
    };
    configs().into_iter().map(|(_, config)| carried(config)).collect()
}

#[test]
fn an_engine_runs_the_policy_that_it_was_given() {
    for (sent, again) in sent_by_path(LbPolicy::custom(&LastFactory)) {
        assert!(sent[7] >= 16, "1 MiB is at least 16 segments: {sent:?}");
        // On a busy machine a segment may be late, and avoids its path when it leaves again.
        let elsewhere: u64 = sent[..7].iter().sum();
        assert!(elsewhere <= again, "{sent:?}, {again} sent again");
    }
    for (sent, _) in sent_by_path(LbPolicy::ROUND_ROBIN) {
        assert!(sent.iter().filter(|path| **path > 0).count() > 1, "{sent:?}");
    }
}

#[test]
fn its_name_is_shown_and_is_not_one_of_the_table() {
    let last = LbPolicy::custom(&LastFactory);
    assert_eq!((last.to_string(), LbPolicy::ALL.contains(&last)), ("last".into(), false));
    assert_eq!(LastFactory.requirements(), Requirements::default());
    assert!("last".parse::<LbPolicy>().is_err());
}
