//! Tests traffic over TCP while the process has descriptors for a few connections only.

mod pair;

use std::fs;

use braid::{Datapath, Degradation, EngineConfig, wr};
use pair::{Pair, Side, local};

/// The number of paths, each of which takes a descriptor at both ends.
const PATHS: usize = 16;

/// Leaves this many descriptors that the process may open. The others are occupied while the
/// result lives.
fn leave(count: usize) -> Vec<fs::File> {
    let limit = libc::rlimit { rlim_cur: 512, rlim_max: 512 };
    // SAFETY: it points to a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let mut all: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    all.truncate(all.len().checked_sub(count).expect("fewer than 512 are open"));
    all
}

/// One test, because the limit applies to the whole process.
#[test]
fn missing_connections_are_a_degradation() {
    let config = EngineConfig { datapath: Datapath::Tcp, paths: PATHS, ..local() };
    let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
    let listener = b.engine.listen(4).unwrap();
    let _occupied = leave(10);
    let p = Pair::connected([a, b], &listener, listener.local_addr(), &[]);
    let mut found = None;
    p.until("degradation", || {
        let all = p.a.qp.degradations();
        found = all.into_iter().find(|one| one.name() == "paths-unconnected");
        found.is_some()
    });
    let found = found.unwrap();
    let Degradation::PathsUnconnected { open, paths, errno, .. } = found else { panic!() };
    assert_eq!((paths, errno), (PATHS, libc::EMFILE));
    assert!((1..PATHS).contains(&open), "{found}");
    assert!(found.to_string().contains("17 descriptors on each rail"), "{found}");
    for id in 0..200 {
        let bytes = vec![id as u8; 70_000];
        p.a.memory.write_at(0, &bytes).unwrap();
        let piece = p.a.memory.slice(..bytes.len()).unwrap();
        p.a.qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
        assert!(p.b.bytes(0..bytes.len()) == bytes, "message {id}");
    }
}
