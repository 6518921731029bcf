//! Paths that end, stall and return.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, Side, local};
use crate::relay::Relay;
use braid::{Crc, Datapath, EngineConfig, PathRoute, Status, wr};

const LEN: usize = 2 << 20;

fn config() -> EngineConfig {
    EngineConfig { datapath: Datapath::Tcp, paths: 4, ..local() }
}

/// Two ends with a relay between them.
fn through_relay(config: &EngineConfig, delay: Duration) -> (Pair, Relay) {
    let (a, b) = (Side::new(config, |_| {}), Side::new(config, |_| {}));
    let listener = b.engine.listen(4).unwrap();
    let relay = Relay::start(listener.local_addr(), delay);
    let pair = Pair::connected([a, b], &listener, relay.addr(), &[]);
    (pair, relay)
}

/// Moves bytes that differ from those of other rounds, by every operation, and checks all of them.
fn transfer(p: &Pair, round: u64) {
    let bytes: Vec<u8> = (0..LEN).map(|at| (at / 13) as u8 ^ (round * 31) as u8).collect();
    p.a.memory.write_at(0, &bytes).unwrap();
    p.b.memory.write_at(LEN, &bytes[LEN / 2..]).unwrap();
    let piece = |from: usize, len: usize| p.a.memory.slice(from..from + len).unwrap();
    for id in 0..8 {
        let at = LEN + LEN / 2 + id * 70_000;
        p.b.post_recv(id as u64, at..at + 70_000);
        p.a.qp.post_send(wr::send(id as u64, [piece(id, 70_000)])).unwrap();
    }
    let counter = p.remote.at(2 * LEN as u64 - 8);
    p.a.qp.post_send(wr::write(10, [piece(0, LEN)], p.remote.at(0))).unwrap();
    p.a.qp.post_send(wr::read(11, [piece(LEN, LEN / 2)], p.remote.at(LEN as u64))).unwrap();
    p.a.qp.post_send(wr::fetch_add(12, piece(2 * LEN - 8, 8), counter, 1)).unwrap();
    p.successes(&p.a, 11);
    let received = p.successes(&p.b, 8);
    assert!(received.iter().map(|done| done.wr_id).eq(0..8), "in posting order");
    assert!(p.b.bytes(0..LEN) == bytes, "round {round}: the WRITE");
    assert!(p.a.bytes(LEN..LEN + LEN / 2) == bytes[LEN / 2..], "round {round}: the READ");
    for id in 0..8 {
        let at = LEN + LEN / 2 + id * 70_000;
        assert!(p.b.bytes(at..at + 70_000) == bytes[id..id + 70_000], "round {round}: SEND {id}");
    }
    assert_eq!(p.b.memory.load_u64(2 * LEN - 8), Ok(round + 1), "each atomic once");
}

/// Makes one connection end after the other while data is moved.
fn survives(harm: fn(&crate::relay::Link), config: &EngineConfig) {
    let (pair, relay) = through_relay(config, Duration::ZERO);
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                let links = relay.links();
                if stop.load(std::sync::atomic::Ordering::Acquire) {
                    return;
                }
                // Those that carry data, and at times the one of set-up and of answers.
                if let Some(link) = links.get(turn % links.len().max(1)) {
                    harm(link);
                }
                thread::sleep(Duration::from_millis(30));
            }
        });
        let began = Instant::now();
        let mut round = 0;
        while began.elapsed() < Duration::from_secs(2) {
            transfer(&pair, round);
            round += 1;
        }
        stop.store(true, std::sync::atomic::Ordering::Release);
        println!("{round} rounds, {} connections", relay.count());
    });
    assert!(relay.count() > 10, "connections are opened again: {}", relay.count());
    assert!(pair.a.qp.error().is_none() && pair.b.qp.error().is_none());
}

#[test]
fn data_arrives_once_and_intact_while_connections_are_cut() {
    survives(crate::relay::Link::cut, &config());
}

#[test]
fn data_arrives_once_and_intact_while_connections_are_reset() {
    survives(crate::relay::Link::reset, &EngineConfig { crc: Some(Crc::On), ..config() });
}

#[test]
fn data_arrives_by_connections_of_different_delays() {
    let (pair, _relay) = through_relay(&config(), Duration::from_millis(1));
    (0..4).for_each(|round| transfer(&pair, round));
}

/// Connections stall inside of frames, which are then sent by others.
#[test]
fn connections_that_stall_are_replaced() {
    let (pair, relay) = through_relay(&config(), Duration::ZERO);
    transfer(&pair, 0);
    let all = 1 + config().paths;
    pair.until("connections of all paths", || relay.links().len() >= all);
    for round in 1..3 {
        let before = relay.count();
        let busiest = relay.links().into_iter().max_by_key(|link| link.passed()).unwrap();
        busiest.stall();
        transfer(&pair, round);
        pair.until("a connection in the place of the stalled one", || {
            // Without traffic nobody notices that nothing passes.
            let piece = pair.a.memory.slice(..64).unwrap();
            pair.a.qp.post_send(wr::write(1, [piece], pair.remote.at(0))).unwrap();
            pair.successes(&pair.a, 1);
            relay.count() > before && relay.links().iter().all(|link| !link.is_over())
        });
    }
}

#[test]
fn all_connections_may_end_at_once() {
    let (pair, relay) = through_relay(&config(), Duration::ZERO);
    for round in 0..3 {
        transfer(&pair, round);
        relay.links().iter().for_each(|link| link.reset());
    }
    transfer(&pair, 3);
}

/// A path that is opened again takes a new source port.
#[test]
fn paths_come_back() {
    let (pair, relay) = through_relay(&config(), Duration::ZERO);
    let all = 1 + config().paths;
    pair.until("connections of all paths", || relay.links().len() >= all);
    relay.links().iter().take(3).for_each(|link| link.cut());
    pair.until("connections of all paths again", || relay.links().len() >= all);
    transfer(&pair, 0);
}

#[test]
fn nobody_listens_is_said_at_once_and_injected_faults_are_refused() {
    let side = Side::new(&config(), |_| {});
    let gone = Side::new(&config(), |_| {}).engine.local_addr();
    let error = side.qp.connect(gone, &[], PATIENCE).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
    let faults = braid::Faults { drop: 0.1, ..Default::default() };
    let error = braid::Engine::new(EngineConfig { faults, ..config() }).err().unwrap();
    assert!(error.to_string().contains("take the datapath `udp`"), "{error}");
}

/// The peer is gone and takes nothing, not even its host answers: work ends in bounded time.
#[test]
fn work_towards_a_stalled_peer_ends() {
    let config = EngineConfig { peer_timeout: Duration::from_secs(1), ..config() };
    let (pair, relay) = through_relay(&config, Duration::ZERO);
    let piece = pair.a.memory.slice(..LEN).unwrap();
    relay.links().iter().for_each(|link| link.stall());
    for id in 0..4 {
        pair.a.qp.post_send(wr::write(id, [piece], pair.remote.at(0))).unwrap();
    }
    // New connections stall as well.
    let mut done = Vec::new();
    pair.until("an end of all work", || {
        relay.links().iter().for_each(|link| link.stall());
        pair.a.cq.poll(&mut done, 8).unwrap();
        done.len() == 4
    });
    assert!(done.iter().any(|done| done.status != Status::Success), "{done:?}");
}

#[test]
fn metrics_have_the_ports_of_each_connection() {
    let pair = Pair::new(&config());
    let routes = |side: &Side, peer: &Side| {
        let is_to_peer = |to: &SocketAddr| *to == peer.engine.local_addr();
        let mut all = side.engine.metrics().routes;
        all.retain(|route| is_to_peer(&route.to));
        all
    };
    let expected = [None, Some(0), Some(1), Some(2), Some(3)];
    let numbers = |all: &[PathRoute]| {
        let mut numbers: Vec<_> = all.iter().map(|it| it.path.map(|path| path.get())).collect();
        numbers.sort_unstable();
        numbers
    };
    pair.until("a connection for each path", || {
        [(&pair.a, &pair.b), (&pair.b, &pair.a)]
            .into_iter()
            .all(|(side, peer)| numbers(&routes(side, peer)) == expected)
    });
    let there = routes(&pair.b, &pair.a);
    for here in routes(&pair.a, &pair.b) {
        let ports = (here.path, here.remote_port, here.local_port);
        let is_seen = there.iter().any(|it| (it.path, it.local_port, it.remote_port) == ports);
        assert!(is_seen, "{here:?} in {there:?}");
    }
}
