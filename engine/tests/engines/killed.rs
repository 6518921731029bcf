//! A peer that is killed during a transfer. All outstanding work requests towards it fail in
//! bounded time, and the survivor accepts a new peer and continues.
//!
//! The peer is this test program in a process of its own.

use std::env;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Side, local, over_sockets};
use braid::{
    Datapath, DatapathKind, DatapathOptions, EndCause, Engine, EngineConfig, QpOptions, QpState,
    QueuePair, RemoteRegion, Status, wr,
};

const ADDRESS: &str = "BRAID_TEST_SURVIVOR";
/// The datapath of the peer.
const DATAPATH: &str = "BRAID_TEST_DATAPATH";
/// If set, the peer sends nothing and waits to be killed.
const IDLE: &str = "BRAID_TEST_IDLE";
/// Less than the 3 s after which a silent peer is considered dead. The host of a killed peer
/// reports that its port is closed, and the peer has 150 ms from then on. Without traffic, the next
/// PING reveals that.
const BOUND: Duration = Duration::from_secs(2);
const RECEIVES: u64 = 10;
const CHUNK: usize = 1 << 20;

#[test]
fn the_survivor_of_a_killed_peer_runs_on() {
    if let Ok(address) = env::var(ADDRESS) {
        return live_until_killed(address.parse().unwrap());
    }
    over_sockets().into_iter().for_each(survive);
}

fn survive(datapath: Datapath) {
    let over = datapath.kind();
    let survivor = Side::new(&EngineConfig { datapath, ..local() }, |_| {});
    let listener = survivor.engine.listen(4).unwrap();
    for round in 0..2 {
        let mut victim = spawn(&survivor, over, "");
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
        stop(&victim);
        // Takes the completions of what the peer answered before.
        while !survivor.cq.wait(Duration::from_millis(50)).unwrap().is_empty() {}
        post(&survivor, qp, remote);
        kill(&mut victim);
        everything_ends(&survivor, qp);
        assert_eq!(qp.error().map(|error| error.cause), Some(EndCause::PeerGone));
    }
}

/// Stops a peer, so that work towards it stays outstanding.
fn stop(victim: &Child) {
    let (pid, mut status) = (victim.id() as libc::pid_t, 0);
    // SAFETY: the process has not ended, so its number is its own; `status` outlives the call.
    unsafe {
        assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
    }
}

fn kill(victim: &mut Child) {
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Kills an idle peer. Returns the cause of the end of the survivor's queue pair after `then` was
/// done.
fn end_of_idle<T>(datapath: Datapath, then: impl FnOnce(SocketAddr) -> T) -> EndCause {
    let over = datapath.kind();
    let survivor = Side::new(&EngineConfig { datapath, ..local() }, |_| {});
    let listener = survivor.engine.listen(1).unwrap();
    let mut victim = spawn(&survivor, over, "1");
    let request = listener.accept(PATIENCE).expect("the peer connects");
    let victims = request.peer_addr();
    request.accept(&survivor.qp, &survivor.memory.remote().to_bytes()).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(700) {
        assert_eq!(survivor.qp.state(), QpState::ReadyToSend);
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(&mut victim);
    let _then = then(victims);
    let begin = Instant::now();
    while survivor.qp.state() == QpState::ReadyToSend {
        assert!(begin.elapsed() < BOUND, "the survivor has not noticed in {BOUND:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("noticed after {:?}", begin.elapsed());
    survivor.qp.error().expect("it has ended").cause
}

#[test]
fn a_peer_that_is_killed_while_nothing_is_under_way_is_noticed() {
    for datapath in over_sockets() {
        assert_eq!(end_of_idle(datapath, |_| ()), EndCause::PeerGone);
    }
}

/// The host reports no closed port, and the new engine does not know the connection.
#[test]
fn a_peer_whose_port_another_engine_has_taken_is_noticed() {
    for datapath in over_sockets() {
        let config = EngineConfig { datapath: datapath.clone(), ..local() };
        let take = |bind| Engine::new(EngineConfig { bind, ..config }).expect("it is free");
        assert_eq!(end_of_idle(datapath, take), EndCause::PeerUnknown);
    }
}

fn another(side: &Side) -> QueuePair {
    let qp = side.pd.create_qp(QpOptions::new(&side.cq, &side.cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    qp
}

fn spawn(survivor: &Side, over: DatapathKind, idle: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::the_survivor_of_a_killed_peer_runs_on", "--nocapture"])
        .env(ADDRESS, survivor.engine.local_addr().to_string())
        .env(DATAPATH, over.name())
        .env(IDLE, idle)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The victim, which writes unless it is idle.
fn live_until_killed(survivor: SocketAddr) {
    let datapath: DatapathKind = env::var(DATAPATH).unwrap().parse().unwrap();
    let datapath = datapath.build(&DatapathOptions::default()).unwrap();
    let side = Side::new(&EngineConfig { datapath, ..local() }, |_| {});
    let private = side.memory.remote().to_bytes();
    let answer = side.qp.connect(survivor, &private, PATIENCE).unwrap();
    let remote = RemoteRegion::from_bytes(&answer).unwrap();
    while env::var(IDLE).is_ok_and(|idle| !idle.is_empty()) {
        std::thread::sleep(PATIENCE);
    }
    loop {
        let piece = side.memory.slice(..CHUNK).unwrap();
        if side.qp.post_send(wr::write(1, [piece], remote.at(0))).is_err() {
            side.cq.wait(PATIENCE).unwrap();
        }
    }
}

/// Work of every kind has succeeded.
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
    println!("everything has ended after {:?}", begin.elapsed());
    assert_eq!(flushed_receives, RECEIVES);
    assert!(failed > RECEIVES, "sends were outstanding, too");
    assert_eq!(qp.state(), QpState::Error);
}
