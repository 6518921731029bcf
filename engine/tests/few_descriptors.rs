//! Tests traffic over paths while the process has no descriptors for their sockets, and the number
//! of sockets that a peer can cause.

mod pair;

use std::fs;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use braid::{EngineConfig, wr};
use pair::{Pair, Side, local};

/// The open descriptors of this process.
fn open_descriptors() -> Vec<u64> {
    let names = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().parse().unwrap()).collect()
}

/// Keeps the process from opening further descriptors.
fn open_no_more() {
    let highest = open_descriptors().into_iter().max().unwrap();
    // Free descriptors below the highest are occupied.
    let limit = libc::rlimit { rlim_cur: highest + 1, rlim_max: highest + 1 };
    // SAFETY: it points to a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    while let Ok(file) = fs::File::open("/dev/null") {
        std::mem::forget(file);
    }
}

/// Two connected sides. The second is called at `ip`.
fn pair(a: &EngineConfig, b: &EngineConfig, ip: IpAddr) -> Pair {
    let (a, b) = (Side::new(a, |_| {}), Side::new(b, |_| {}));
    let listener = b.engine.listen(4).unwrap();
    let to = (ip, listener.local_addr().port()).into();
    Pair::connected([a, b], &listener, to, &[])
}

fn write(p: &Pair, count: u64) {
    for id in 0..count {
        p.a.qp.post_send(wr::write(id, [p.a.memory.slice(..8).unwrap()], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
    }
}

/// One test, because the limit applies to the whole process.
#[test]
fn a_host_answers_without_descriptors_and_opens_none_for_the_paths_of_others() {
    let b = EngineConfig { paths: 2, ..local() };
    let many = pair(&EngineConfig { paths: 64, ..local() }, &b, Ipv4Addr::LOCALHOST.into());
    let before = open_descriptors().len();
    write(&many, 2_000);
    let opened = open_descriptors().len() - before;
    println!("{opened} descriptors opened for 64 paths of the peer");
    assert!(opened <= 2, "the peer's paths have {opened} descriptors opened");

    // Sockets towards IPv6 hosts are opened when a path is first used.
    let v6 = EngineConfig { bind: "[::]:0".parse().unwrap(), paths: 16, ..local() };
    let p = pair(&v6, &v6, Ipv6Addr::LOCALHOST.into());
    open_no_more();
    write(&p, 500);
    assert!(p.a.qp.error().is_none() && p.b.qp.error().is_none());
}
