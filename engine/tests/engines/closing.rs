//! Data that has arrived counts as sent successfully, even if its receiver closes at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::connections::silent_peer;
use crate::pair::{PATIENCE, Side, configs_for_faults, local};
use crate::scripted::Scripted;
use braid::{
    Completion, EngineConfig, Faults, Listener, Progress, QpOptions, QpState, QueuePair, Status, wr,
};
use braid_wire::{Control, ControlKind, QpId, Token};

/// The number of connections that are closed one after the other.
const CLOSES: u64 = 30;

fn fresh(side: &Side) -> QueuePair {
    let qp = side.pd.create_qp(QpOptions::new(&side.cq, &side.cq).queues(8, 8)).unwrap();
    qp.modify(QpState::Init).unwrap();
    qp
}

/// The next completion of `side`, while both engines run.
fn next(side: &Side, other: &Side) -> Completion {
    let start = Instant::now();
    loop {
        other.engine.progress();
        if let Some(done) = side.cq.poll_one().unwrap() {
            return done;
        }
        assert!(start.elapsed() < PATIENCE, "no completion");
    }
}

/// Connects `from` with `to`, a queue pair of `side`, which runs until both ends are connected.
fn connect(from: &QueuePair, listener: &Listener, to: &QueuePair, side: &Side) {
    let connected = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            listener.accept(PATIENCE).expect("a connection request").accept(to, &[]).unwrap();
            while !connected.load(Ordering::Relaxed) {
                side.engine.progress();
            }
        });
        from.connect(listener.local_addr(), &[], PATIENCE).unwrap();
        connected.store(true, Ordering::Relaxed);
    });
}

/// `b` receives a message of `a` and closes. `a` must not report a failure.
fn close_right_after(name: &str, config: &EngineConfig) {
    println!("-- {name}");
    let (a, b) = (Side::new(config, |_| {}), Side::new(config, |_| {}));
    let listener = b.engine.listen(8).unwrap();
    let piece = a.memory.slice(..3000).unwrap();
    let mut failed = Vec::new();
    for id in 0..CLOSES {
        let (from, to) = (fresh(&a), fresh(&b));
        to.post_recv(wr::recv(id, [b.memory.slice(..3000).unwrap()])).unwrap();
        connect(&from, &listener, &to, &b);
        from.post_send(wr::send(id, [piece])).unwrap();
        assert_eq!(next(&b, &a).status, Status::Success);
        drop(to);
        let done = next(&a, &b);
        assert_eq!(done.wr_id, id);
        if done.status != Status::Success {
            failed.push((id, done.status));
        }
    }
    assert!(failed.is_empty(), "{name}: {} of {CLOSES} failed: {failed:?}", failed.len());
}

#[test]
fn a_delivered_send_succeeds_although_its_receiver_closes() {
    let faults = Faults { drop: 0.1, reorder: 0.2, seed: 17, ..Faults::default() };
    for (name, config) in configs_for_faults() {
        close_right_after(name, &EngineConfig { faults, ..config });
    }
}

/// The engine of the closing side lingers until the peer has confirmed.
#[test]
fn a_delivered_send_succeeds_although_its_receivers_engine_ends() {
    for progress in [Progress::Threads(1), Progress::Application] {
        for seed in 0..6 {
            let faults = Faults { drop: 0.2, reorder: 0.2, seed, ..Faults::default() };
            let config = EngineConfig { faults, progress, ..local() };
            let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
            b.post_recv(1, 0..64);
            connect(&a.qp, &b.engine.listen(1).unwrap(), &b.qp, &b);
            a.qp.post_send(wr::send(2, [a.memory.slice(..64).unwrap()])).unwrap();
            assert_eq!(next(&b, &a).status, Status::Success);
            let done = thread::scope(|scope| {
                scope.spawn(|| drop(b));
                a.cq.wait(PATIENCE).unwrap()
            });
            assert_eq!(done[0].status, Status::Success, "{progress:?}, seed {seed}");
        }
    }
}

/// The number of connections between two engines that end at the same time.
const CROSSING: usize = 32;

/// The time that two engines take to end at the same time.
fn end_both(faults: Faults) -> Duration {
    let config = EngineConfig { linger: PATIENCE, faults, ..local() };
    let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
    let listener = b.engine.listen(8).unwrap();
    let pairs: Vec<(QueuePair, QueuePair)> = (0..CROSSING)
        .map(|_| {
            let (from, to) = (fresh(&a), fresh(&b));
            connect(&from, &listener, &to, &b);
            (from, to)
        })
        .collect();
    drop(listener);
    let (from, to): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let together = Barrier::new(2);
    let end = |side: Side, qps: Vec<QueuePair>| {
        together.wait();
        let start = Instant::now();
        drop((qps, side));
        start.elapsed()
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| end(b, to));
        end(a, from).max(other.join().unwrap())
    })
}

/// Each end takes the other's DISCONNECT as the confirmation and waits for nothing else. The first
/// time-out is 20 ms.
#[test]
fn engines_that_end_at_the_same_time_are_over_at_once() {
    let took: Vec<Duration> = (0..8).map(|_| end_both(Faults::default())).collect();
    println!("the engines have ended after {took:?}");
    assert!(*took.iter().min().unwrap() < Duration::from_millis(15), "{took:?}");
}

/// Packets are lost, and an engine that is gone confirms nothing. Its host reports that the port is
/// closed.
#[test]
fn engines_that_end_at_the_same_time_do_not_wait_for_one_that_has_gone() {
    let faults = |seed| Faults { drop: 0.1, seed, ..Faults::default() };
    let took: Vec<Duration> = (0..4).map(|seed| end_both(faults(seed))).collect();
    println!("the engines have ended after {took:?}");
    assert!(took.iter().all(|took| *took < Duration::from_millis(1500)), "{took:?}");
}

/// The peer confirms nothing, and the engine ends all the same.
#[test]
fn an_engine_ends_although_its_peer_is_silent() {
    let linger = Duration::from_millis(50);
    let config = EngineConfig { progress: Progress::Application, linger, ..local() };
    let (side, peer) = silent_peer(&config);
    let start = Instant::now();
    drop(side);
    assert!((linger..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(peer.hear_disconnect().what.token, Token(0xCAFE_F00D));
}

/// An UNKNOWN is addressed to the queue pair that asked. It ends only that one, and only with the
/// contents of its PING.
#[test]
fn only_who_asked_can_be_told_that_the_other_is_unknown() {
    let (side, peer) = (Side::new(&local(), |_| {}), Scripted::new());
    let qps = [fresh(&side), fresh(&side)];
    let theirs = [(QpId::new(0x0B_0B0B), Token(1)), (QpId::new(0x0C_0C0C), Token(2))];
    let from = [0, 1].map(|index| {
        thread::scope(|scope| {
            let (qp, addr) = (&qps[index], peer.addr());
            let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
            let connect = peer.hear_connect();
            peer.accept(&connect, theirs[index].0, theirs[index].1);
            attempt.join().unwrap().unwrap();
            connect.from
        })
    });
    let unknown = |index: usize, (id, token): (QpId, Token)| {
        let (kind, qp) = (ControlKind::Unknown, qps[index].number());
        let control = Control { kind, qp, from: id, token, stamp: 0 };
        peer.send_control(from[index], control);
    };
    let refused = || side.engine.counters().refused;
    let lies = [theirs[1], (theirs[0].0, theirs[1].1), (theirs[1].0, theirs[0].1)];
    lies.into_iter().for_each(|lie| unknown(0, lie));
    let start = Instant::now();
    while refused() < lies.len() as u64 {
        assert!(start.elapsed() < PATIENCE, "{} refused", refused());
    }
    unknown(0, theirs[0]);
    while qps[0].state() != QpState::Error {
        assert!(start.elapsed() < PATIENCE, "it is {:?}", qps[0].state());
    }
    assert_eq!(qps[1].state(), QpState::ReadyToSend);
}
