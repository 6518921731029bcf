//! Setting up connections, tearing them down, many of them, and peers that disappear.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, Side, configs, connect, everywhere, local, reachable};
use crate::scripted::Scripted;
use braid::{
    ConnectError, Datapath, Engine, EngineConfig, ListenError, MemFabric, Progress, QpOptions,
    QpState, RejectReason, RemoteAddr, Status, wr,
};
use braid_wire::{QpId, Token};

#[test]
fn private_data_goes_both_ways() {
    for (name, config) in configs() {
        let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
        let listener = b.engine.listen(1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = listener.accept(PATIENCE).unwrap();
                assert_eq!(request.private_data(), [7; 512]);
                assert_eq!(request.peer_addr().port(), a.engine.local_addr().port());
                request.accept(&b.qp, &[8; 512]).unwrap();
            });
            let answer = a.qp.connect(listener.local_addr(), &[7; 512], PATIENCE).unwrap();
            assert_eq!(answer, [8; 512], "{name}");
        });
        assert_eq!((a.qp.state(), b.qp.state()), (QpState::ReadyToSend, QpState::ReadyToSend));
        assert_eq!(a.qp.remote_addr(), Some(b.engine.local_addr()));
        let long = a.qp.connect(listener.local_addr(), &[0; 513], PATIENCE).unwrap_err();
        assert!(matches!(long, ConnectError::PrivateData { len: 513 }));
        let again = a.qp.connect(listener.local_addr(), &[], PATIENCE).unwrap_err();
        assert!(matches!(again, ConnectError::State { state: QpState::ReadyToSend, .. }));
    }
}

#[test]
fn refusals_say_why() {
    for (name, config) in configs() {
        println!("-- {name}");
        let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
        let addr = b.engine.local_addr();
        let rejected = |limit| {
            thread::scope(|scope| {
                let attempt = scope.spawn(|| a.qp.connect(addr, &[], limit).unwrap_err());
                while !attempt.is_finished() {
                    b.engine.progress();
                }
                attempt.join().unwrap()
            })
        };
        let error = rejected(PATIENCE);
        let nobody = RejectReason::NotListening;
        assert!(matches!(error, ConnectError::Rejected { reason, .. } if reason == nobody));

        let listener = b.engine.listen(1).unwrap();
        assert!(matches!(b.engine.listen(1), Err(ListenError::AlreadyListening { .. })));
        thread::scope(|scope| {
            let attempt = scope.spawn(|| a.qp.connect(addr, &[], PATIENCE).unwrap_err());
            listener.accept(PATIENCE).unwrap().reject();
            while !attempt.is_finished() {
                b.engine.progress();
            }
            let error = attempt.join().unwrap();
            let no = RejectReason::Refused;
            assert!(matches!(error, ConnectError::Rejected { reason, .. } if reason == no));
        });

        // An attempt that is never accepted occupies the backlog of one. The next attempt is told
        // to wait until its time-out, and then reports the reason.
        assert!(matches!(rejected(Duration::from_millis(100)), ConnectError::TimedOut { .. }));
        let (error, busy) = (rejected(Duration::from_millis(100)), RejectReason::Busy);
        assert!(matches!(error, ConnectError::Rejected { reason, .. } if reason == busy));
        assert!(b.engine.counters().setup_busy > 0);
        drop(listener);
        assert!(b.engine.listen(1).is_ok());
    }
}

#[test]
fn an_address_without_a_listener_times_out() {
    for (name, config) in configs() {
        let side = Side::new(&config, |_| {});
        // A port that was free a moment ago.
        let addr = Engine::new(config).unwrap().local_addr();
        let start = Instant::now();
        let error = side.qp.connect(addr, &[], Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, ConnectError::TimedOut { .. }), "{name}: {error}");
        assert!(error.to_string().contains(&addr.to_string()));
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(side.qp.state(), QpState::Init, "it can be tried again");
    }
}

/// Loopback reports at once that the port is closed.
#[test]
fn a_port_that_nobody_has_is_not_waited_for() {
    for progress in [Progress::Threads(1), Progress::Application] {
        let side = Side::new(&EngineConfig { progress, ..local() }, |_| {});
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = port.local_addr().unwrap();
        drop(port);
        let error = side.qp.connect(addr, &[], PATIENCE).unwrap_err();
        let refused = |source: &io::Error| source.kind() == io::ErrorKind::ConnectionRefused;
        assert!(
            matches!(&error, ConnectError::Unreachable { source, .. } if refused(source)),
            "{error}"
        );
        assert!(error.to_string().contains(&addr.to_string()));
        assert_eq!(side.qp.state(), QpState::Init, "it can be tried again");
    }
}

#[test]
fn a_connection_that_ends_flushes_both_sides() {
    everywhere(|p| {
        p.a.post_recv(1, 0..64);
        p.b.post_recv(2, 0..64);
        p.a.qp.disconnect();
        for (side, id) in [(&p.a, 1), (&p.b, 2)] {
            let done = p.completions(side, 1)[0];
            assert_eq!((done.wr_id, done.status), (id, Status::Flushed));
            assert_eq!(side.qp.state(), QpState::Error);
        }
    });
}

#[test]
fn a_queue_pair_connects_again_after_reset() {
    everywhere(|p| {
        let listener = p.b.engine.listen(1).unwrap();
        for round in 0..3 {
            p.a.post_recv(1, 0..64);
            p.a.qp.modify(QpState::Reset).unwrap();
            p.until("the peer's ERR", || p.b.qp.state() == QpState::Error);
            p.b.qp.modify(QpState::Reset).unwrap();
            assert_eq!(p.a.qp.outstanding(), (0, 0));
            crate::pair::connect(&p.a.qp, &listener, &p.b.qp, &[]);
            let piece = p.a.memory.slice(..64).unwrap();
            p.a.qp.post_send(wr::write(round, [piece], p.remote.at(0))).unwrap();
            assert_eq!(p.successes(&p.a, 1)[0].wr_id, round);
        }
    });
}

#[test]
fn a_peer_that_is_dropped() {
    for (name, config) in configs() {
        println!("-- {name}");
        let Pair { a, b, remote } = Pair::new(&config);
        a.post_recv(1, 0..64);
        drop(b);
        let start = Instant::now();
        let mut done = Vec::new();
        while done.is_empty() {
            a.cq.poll(&mut done, 1).unwrap();
            assert!(start.elapsed() < PATIENCE);
        }
        assert_eq!(done[0].status, Status::Flushed);
        let piece = a.memory.slice(..8).unwrap();
        a.qp.post_send(wr::write(2, [piece], remote.at(0))).unwrap();
        assert_eq!(a.cq.wait(PATIENCE).unwrap()[0].status, Status::Flushed);
    }
}

/// A side, and a peer that has accepted its connection and is silent from then on.
pub(crate) fn silent_peer(config: &EngineConfig) -> (Side, Scripted) {
    let (side, peer) = (Side::new(config, |_| {}), Scripted::new());
    let (qp, addr) = (&side.qp, peer.addr());
    thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = peer.hear_connect();
        peer.accept(&connect, QpId::new(0x0B_0B0B), Token(0xCAFE_F00D));
        attempt.join().unwrap().unwrap();
    });
    (side, peer)
}

#[test]
fn a_peer_that_falls_silent() {
    let config = EngineConfig {
        progress: Progress::Application,
        ping_interval: Duration::from_millis(50),
        peer_timeout: Duration::from_millis(300),
        ..local()
    };
    let (a, _silent) = silent_peer(&config);
    let piece = a.memory.slice(..8).unwrap();
    a.qp.post_send(wr::write(1, [piece], RemoteAddr { addr: 0, rkey: 1 })).unwrap();
    let start = Instant::now();
    let done = a.cq.wait(PATIENCE).unwrap();
    assert_eq!(done[0].status, Status::RetryExceeded);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

/// An application that is busy for longer than its peer waits is not considered dead.
#[test]
fn an_application_that_is_busy_is_not_taken_for_dead() {
    let limit = Duration::from_millis(600);
    let busy = EngineConfig { progress: Progress::Application, ..local() };
    let impatient =
        EngineConfig { ping_interval: Duration::from_millis(100), peer_timeout: limit, ..local() };
    let (a, b) = (Side::new(&impatient, |_| {}), Side::new(&busy, |_| {}));
    crate::pair::connect(&a.qp, &b.engine.listen(1).unwrap(), &b.qp, &[]);
    b.post_recv(1, 0..64);
    // From here on no thread runs `b`.
    a.qp.post_send(wr::send(2, [a.memory.slice(..64).unwrap()])).unwrap();
    let done = a.cq.wait(PATIENCE).unwrap();
    assert_eq!(done[0].status, Status::Success);
    thread::sleep(3 * limit);
    assert_eq!(a.qp.state(), QpState::ReadyToSend);
}

#[test]
fn a_thousand_queue_pairs() {
    let fabric = MemFabric::new();
    for datapath in [Datapath::Udp, Datapath::Mem(fabric)] {
        let config = EngineConfig { datapath, ..local() };
        let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
        let listener = b.engine.listen(64).unwrap();
        let create = |side: &Side| {
            side.pd.create_qp(QpOptions::new(&side.cq, &side.cq).queues(16, 16)).unwrap()
        };
        let start = Instant::now();
        let (from, to): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let accept = |_| {
                    let qp = create(&b);
                    listener.accept(PATIENCE).unwrap().accept(&qp, &[]).unwrap();
                    qp
                };
                (0..1000).map(accept).collect()
            });
            let connect = |_| {
                let qp = create(&a);
                qp.connect(b.engine.local_addr(), &[], PATIENCE).unwrap();
                qp
            };
            ((0..1000).map(connect).collect(), accepted.join().unwrap())
        });
        assert!(start.elapsed() < PATIENCE, "set up in {:?}", start.elapsed());
        let piece = a.memory.slice(..8).unwrap();
        for qp in &from {
            qp.post_send(wr::write(1, [piece], b.memory.remote().at(0))).unwrap();
        }
        let mut done = 0;
        while done < 1000 {
            let batch = a.cq.wait(PATIENCE).unwrap();
            assert!(!batch.is_empty() && batch.iter().all(|c| c.status == Status::Success));
            done += batch.len();
        }
        drop((from, to));
        assert!(start.elapsed() < PATIENCE, "torn down after {:?}", start.elapsed());
    }
}

#[test]
fn a_queue_pair_is_as_patient_as_its_engine() {
    for peer_timeout in [Duration::from_millis(300), Duration::from_secs(30)] {
        let side = Side::new(&EngineConfig { peer_timeout, ..local() }, |_| {});
        let options = QpOptions::new(&side.cq, &side.cq);
        assert_eq!(options.config.retry_timeout, peer_timeout);
    }
}

/// The two ends choose their classes independently, so one end has two peers where the other has
/// one.
#[test]
fn connections_of_different_traffic_classes_share_engines() {
    for (name, config) in configs() {
        println!("-- {name}");
        let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
        a.qp.set_traffic_class(0x68);
        let listener = b.engine.listen(8).unwrap();
        let pair = Pair::connected([a, b], &listener, reachable(listener.local_addr()), &[]);
        let qps = [&pair.a, &pair.b].map(|side| {
            let qp = side.pd.create_qp(QpOptions::new(&side.cq, &side.cq)).unwrap();
            qp.modify(QpState::Init).unwrap();
            qp
        });
        connect(&qps[0], &listener, &qps[1], &[]);
        pair.a.memory.write_at(0, &[7; 100_000]).unwrap();
        for (index, qp) in [&pair.a.qp, &qps[0]].into_iter().enumerate() {
            let at = index * 100_000;
            let from = pair.a.memory.slice(0..100_000).unwrap();
            let to = pair.remote.at(at as u64);
            qp.post_send(wr::write(index as u64, [from], to)).unwrap();
            pair.successes(&pair.a, 1);
            assert_eq!(pair.b.bytes(at..at + 100_000), [7; 100_000]);
        }
    }
}
