//! A peer that is killed in mid-transfer: everything outstanding towards it ends with an error in
//! bounded time, and the survivor takes a new peer and runs on.
//!
//! The peer is this test program once more, in a process of its own.

use std::env;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Side, local};
use braid::{QpOptions, QpState, QueuePair, RemoteRegion, Status, wr};

const ADDRESS: &str = "BRAID_TEST_SURVIVOR";
/// What DESIGN.md allows by default.
const BOUND: Duration = Duration::from_secs(5);
const RECEIVES: u64 = 10;
const CHUNK: usize = 1 << 20;

#[test]
fn the_survivor_of_a_killed_peer_runs_on() {
    if let Ok(address) = env::var(ADDRESS) {
        return write_for_ever(address.parse().unwrap());
    }
    let survivor = Side::new(&local(), |_| {});
    let listener = survivor.engine.listen(4).unwrap();
    for round in 0..2 {
        let mut victim = spawn(survivor.engine.local_addr());
        let request = listener.accept(PATIENCE).expect("the peer connects");
        let remote = RemoteRegion::from_bytes(request.private_data()).unwrap();
        let fresh;
        let qp = if round == 0 {
            &survivor.qp
        } else {
            fresh = another(&survivor);
            &fresh
        };
        request.accept(qp, &survivor.memory.remote().to_bytes()).unwrap();
        transfer_until_busy(&survivor, qp, remote);
        victim.kill().unwrap();
        victim.wait().unwrap();
        everything_ends(&survivor, qp);
    }
}

fn another(side: &Side) -> QueuePair {
    let qp = side.pd.create_qp(QpOptions::new(&side.cq, &side.cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    qp
}

fn spawn(survivor: SocketAddr) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::the_survivor_of_a_killed_peer_runs_on", "--nocapture"])
        .env(ADDRESS, survivor.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The victim: writes until it is killed.
fn write_for_ever(survivor: SocketAddr) {
    let side = Side::new(&local(), |_| {});
    let private = side.memory.remote().to_bytes();
    let answer = side.qp.connect(survivor, &private, PATIENCE).unwrap();
    let remote = RemoteRegion::from_bytes(&answer).unwrap();
    loop {
        let piece = side.memory.slice(..CHUNK).unwrap();
        if side.qp.post_send(wr::write(1, [piece], remote.at(0))).is_err() {
            side.cq.wait(PATIENCE).unwrap();
        }
    }
}

/// Work of every kind is outstanding, and some of it has gone well.
fn transfer_until_busy(survivor: &Side, qp: &QueuePair, remote: RemoteRegion) {
    for id in 0..RECEIVES {
        qp.post_recv(wr::recv(id, [survivor.memory.slice(..64).unwrap()])).unwrap();
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        post(survivor, qp, remote);
        for done in survivor.cq.wait(Duration::from_millis(10)).unwrap() {
            assert_eq!(done.status, Status::Success);
        }
    }
    post(survivor, qp, remote);
}

fn post(survivor: &Side, qp: &QueuePair, remote: RemoteRegion) {
    let piece = survivor.memory.slice(CHUNK..2 * CHUNK).unwrap();
    while qp.outstanding().0 < 6 {
        qp.post_send(wr::write(100, [piece], remote.at(CHUNK as u64))).unwrap();
        qp.post_send(wr::read(101, [piece], remote.at(CHUNK as u64))).unwrap();
    }
}

fn everything_ends(survivor: &Side, qp: &QueuePair) {
    let begin = Instant::now();
    let (mut failed, mut flushed_receives) = (0, 0);
    while qp.outstanding() != (0, 0) || flushed_receives < RECEIVES {
        assert!(begin.elapsed() < BOUND, "{:?} outstanding after {BOUND:?}", qp.outstanding());
        for done in survivor.cq.wait(Duration::from_millis(50)).unwrap() {
            failed += u64::from(done.status != Status::Success);
            flushed_receives += u64::from(done.work.is_recv());
        }
    }
    assert_eq!(flushed_receives, RECEIVES);
    assert!(failed > RECEIVES, "sends were outstanding, too");
    assert_eq!(qp.state(), QpState::Error);
}
