//! The packets of a listener and their source: to initiators that repeat packets, come late, or ask
//! for too much.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::pair::{PATIENCE, Side, local};
use crate::scripted::{Heard, Scripted};
use braid::{
    ConnectError, EngineConfig, Listener, Progress, QpOptions, QpState, QueuePair, RemoteAddr, wr,
};
use braid_wire::{Connect, FurtherRail, Packet, QpId, RejectReason, Setup, Token};

const THEIRS: QpId = QpId::new(0x0B_0B0B);
const TOKEN: Token = Token(0xCAFE_F00D);
const SHORT: Duration = Duration::from_millis(300);

fn with_workers(count: usize) -> EngineConfig {
    EngineConfig { progress: Progress::Threads(count), ..local() }
}

fn queue_pair(side: &Side) -> QueuePair {
    side.pd.create_qp(QpOptions::new(&side.cq, &side.cq).queues(16, 16)).unwrap()
}

fn repeat(initiator: &Scripted, to: SocketAddr, connect: &Connect) {
    initiator.send_setup(to, &Setup::Connect(connect.clone()));
}

fn hear_reject(initiator: &Scripted) -> RejectReason {
    let heard = initiator.hear(|packet| match packet {
        Packet::Setup(Setup::Reject(reject)) => Some(reject.reason),
        Packet::Setup(other) => panic!("not a REJECT: {other:?}"),
        _ => None,
    });
    heard.what
}

fn hear_data(from: &Scripted) -> (QpId, Token) {
    let data = |packet: Packet<'_>| match packet {
        Packet::Data(header, _) => Some((header.qp, header.token)),
        _ => None,
    };
    from.hear(data).what
}

fn accept(listener: &Listener, qp: &QueuePair) {
    listener.accept(PATIENCE).unwrap().accept(qp, &[]).unwrap();
}

fn write(side: &Side, qp: &QueuePair) {
    let remote = RemoteAddr { addr: 0x1000, rkey: 1 };
    qp.post_send(wr::write(1, [side.memory.slice(..64).unwrap()], remote)).unwrap();
}

/// Each worker of the engine has a port of its own and answers from it, repeated packets included.
#[test]
fn an_accept_leaves_from_where_the_queue_pair_receives() {
    const WORKERS: usize = 3;
    let (side, initiator) = (Side::new(&with_workers(WORKERS), |_| {}), Scripted::new());
    let listener = side.engine.listen(8).unwrap();
    let addr = listener.local_addr();
    let mut ports = HashSet::new();
    for nonce in 0..WORKERS as u64 {
        let connect = initiator.connect(addr, nonce, THEIRS, TOKEN);
        let qp = queue_pair(&side);
        accept(&listener, &qp);
        let first = initiator.hear_accept();
        repeat(&initiator, addr, &connect);
        let again = initiator.hear_accept();
        assert_eq!((first.from, first.what), (again.from, again.what));
        assert!(ports.insert(first.from.port()), "two workers on {}", first.from);
    }
}

/// The cookie proves that the initiator receives at the source of its CONNECT, and nothing else
/// does.
#[test]
fn data_goes_where_the_connect_came_from_whatever_else_it_names() {
    let side = Side::new(&local(), |_| {});
    let (initiator, other) = (Scripted::new(), Scripted::new());
    let listener = side.engine.listen(8).unwrap();
    let named = |connect: &mut Connect| {
        connect.routing.rails.push(FurtherRail { addr: other.addr(), nic: Vec::new() })
    };
    let connect = initiator.connect_with(listener.local_addr(), 5, THEIRS, TOKEN, named);
    assert_eq!(connect.offer.token, TOKEN);
    accept(&listener, &side.qp);
    write(&side, &side.qp);
    assert_eq!(hear_data(&initiator), (THEIRS, TOKEN));
    assert_eq!(side.qp.remote_addr(), Some(initiator.addr()));
}

#[test]
fn data_goes_where_the_accept_came_from() {
    let side = Side::new(&local(), |_| {});
    let (listening, worker) = (Scripted::new(), Scripted::new());
    thread::scope(|scope| {
        let (qp, addr) = (&side.qp, listening.addr());
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = listening.hear_connect();
        worker.accept(&connect, THEIRS, TOKEN);
        attempt.join().unwrap().unwrap();
    });
    write(&side, &side.qp);
    assert_eq!(hear_data(&worker), (THEIRS, TOKEN));
    assert_eq!(side.qp.remote_addr(), Some(worker.addr()));
}

/// A responder could otherwise direct data to a host that never asked for it.
#[test]
fn an_accept_from_another_host_is_not_believed() {
    let side = Side::new(&local(), |_| {});
    let (asked, other) = (Scripted::new(), Scripted::at("127.0.0.2:0".parse().unwrap()));
    thread::scope(|scope| {
        let (qp, addr) = (&side.qp, asked.addr());
        let attempt = scope.spawn(move || qp.connect(addr, &[], SHORT));
        let connect = asked.hear_connect();
        other.accept(&connect, THEIRS, TOKEN);
        let error = attempt.join().unwrap().unwrap_err();
        assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    });
}

/// A host bound to a wildcard answers from the address that its routes select.
#[test]
fn a_host_may_answer_from_another_address_if_it_receives_there() {
    let side = Side::new(&local(), |_| {});
    let (asked, other) = (Scripted::new(), Scripted::at("127.0.0.2:0".parse().unwrap()));
    thread::scope(|scope| {
        let (qp, addr) = (&side.qp, asked.addr());
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let Heard { what: Setup::Hello(hello), from } = asked.hear_setup() else {
            panic!("it begins with HELLO")
        };
        other.send_setup(
            from,
            &Setup::Cookie { nonce: hello.nonce, cookie: 1, key_id: 0, len: hello.len },
        );
        let connect = other.hear_connect();
        assert_ne!(connect.what.nonce, hello.nonce, "the first nonce proves nothing there");
        other.accept(&connect, THEIRS, TOKEN);
        attempt.join().unwrap().unwrap();
    });
    assert_eq!(side.qp.remote_addr(), Some(other.addr()));
}

/// Ends a connection. Returns the queue pair if it still exists.
type End = fn(QueuePair) -> Option<QueuePair>;

/// With several workers, the listening worker and that of the queue pair differ.
#[test]
fn a_connect_that_comes_after_the_end_is_no_new_request() {
    let ends: [(&str, End); 3] = [
        ("destroyed", |_| None),
        ("reset", |qp| {
            qp.modify(QpState::Reset).unwrap();
            Some(qp)
        }),
        ("disconnected", |qp| {
            qp.disconnect();
            Some(qp)
        }),
    ];
    for (name, end) in ends {
        let (side, initiator) = (Side::new(&with_workers(3), |_| {}), Scripted::new());
        let listener = side.engine.listen(8).unwrap();
        let addr = listener.local_addr();
        for nonce in 0..3 {
            let connect = initiator.connect(addr, nonce, THEIRS, TOKEN);
            let qp = queue_pair(&side);
            accept(&listener, &qp);
            initiator.hear_accept();
            let _kept = end(qp);
            repeat(&initiator, addr, &connect);
            assert_eq!(hear_reject(&initiator), RejectReason::Refused, "{name}");
            assert!(listener.accept(Duration::ZERO).is_none(), "{name}: accepted twice");
        }
    }
}

#[test]
fn one_host_takes_its_share_of_the_backlog_and_no_more() {
    let (side, initiator) = (Side::new(&local(), |_| {}), Scripted::new());
    let listener = side.engine.listen(4).unwrap();
    let addr = listener.local_addr();
    (0..2).for_each(|nonce| drop(initiator.connect(addr, nonce, THEIRS, TOKEN)));
    let third = initiator.connect(addr, 2, THEIRS, TOKEN);
    assert_eq!(hear_reject(&initiator), RejectReason::Busy);
    let elsewhere = Scripted::at("127.0.0.2:0".parse().unwrap());
    elsewhere.connect(addr, 3, THEIRS, TOKEN);
    let requests: Vec<_> = (0..3).map(|_| listener.accept(PATIENCE).unwrap()).collect();
    assert_eq!(requests[2].peer_addr(), elsewhere.addr());
    assert_eq!(side.engine.counters().setup_busy, 1);
    // There is room again.
    repeat(&initiator, addr, &third);
    assert!(listener.accept(PATIENCE).is_some());
}

#[test]
fn unwanted_requests_are_rejected_without_an_accept() {
    let (a, b) = (Side::new(&local(), |_| {}), Side::new(&local(), |_| {}));
    let listener = b.engine.listen_for(4, |private_data| private_data == b"wanted").unwrap();
    let error = a.qp.connect(listener.local_addr(), b"not wanted", PATIENCE).unwrap_err();
    let refused = RejectReason::Refused;
    assert!(matches!(error, ConnectError::Rejected { reason, .. } if reason == refused), "{error}");
    thread::scope(|scope| {
        scope.spawn(|| accept(&listener, &b.qp));
        a.qp.connect(listener.local_addr(), b"wanted", PATIENCE).unwrap();
    });
}
