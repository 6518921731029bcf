//! The datapath `auto`: UDP where it passes, TCP elsewhere.

use std::net::UdpSocket;
use std::time::Instant;

use braid::{
    ConnectError, Datapath, Degradation, Engine, EngineConfig, Key, Progress, QueuePair, Security,
};

use crate::pair::{PATIENCE, Pair, Side, connect, local};
use crate::stranger::transfer;

fn config(datapath: Datapath) -> EngineConfig {
    EngineConfig { datapath, paths: 4, ..local() }
}

/// The reason why the connection is carried over TCP. `None`: UDP carries it.
fn fallback(qp: &QueuePair) -> Option<String> {
    qp.degradations().into_iter().find_map(|one| match one {
        Degradation::DatapathUnavailable { wanted: "UDP", used: "TCP", cause, .. } => Some(cause),
        _ => None,
    })
}

/// Connects an engine to one of other datapath, and moves data.
fn pair(ours: EngineConfig, theirs: EngineConfig) -> Pair {
    let (a, b) = (Side::new(&ours, |_| {}), Side::new(&theirs, |_| {}));
    let listener = b.engine.listen(4).unwrap();
    let pair = Pair::connected([a, b], &listener, listener.local_addr(), &[]);
    (1..4).for_each(|round| transfer(&pair, round));
    pair
}

#[test]
fn udp_is_used_where_it_passes() {
    for (ours, theirs) in [
        (Datapath::Auto, Datapath::Auto),
        (Datapath::Auto, Datapath::Udp),
        (Datapath::Udp, Datapath::Auto),
    ] {
        let pair = pair(config(ours), config(theirs));
        assert_eq!((fallback(&pair.a.qp), fallback(&pair.b.qp)), (None, None));
    }
}

#[test]
fn tcp_is_used_where_the_udp_port_is_closed() {
    let pair = pair(config(Datapath::Auto), config(Datapath::Tcp));
    let port = pair.b.engine.local_addr().port();
    let why = fallback(&pair.a.qp).expect("it is carried over TCP");
    let expected = format!("UDP port {port} of 127.0.0.1 cannot be reached (Connection refused");
    assert!(why.starts_with(&expected), "{why}");
    let mtu = pair.a.qp.packet_payload().unwrap();
    assert!(mtu > 60_000, "segments of TCP, not of a datagram: {mtu}");
}

#[test]
fn tcp_is_used_where_udp_is_silent() {
    let theirs = Side::new(&config(Datapath::Tcp), |_| {});
    let silent = UdpSocket::bind(theirs.engine.local_addr()).unwrap();
    let ours = Side::new(&config(Datapath::Auto), |_| {});
    let listener = theirs.engine.listen(4).unwrap();
    let pair = Pair::connected([ours, theirs], &listener, listener.local_addr(), &[]);
    transfer(&pair, 1);
    let why = fallback(&pair.a.qp).expect("it is carried over TCP");
    assert!(why.contains("set-up packets of") && why.contains("not answered"), "{why}");
    drop(silent);
}

#[test]
fn later_connections_begin_over_tcp() {
    let pair = pair(config(Datapath::Auto), config(Datapath::Tcp));
    let why = fallback(&pair.a.qp);
    let [here, there] = [&pair.a, &pair.b].map(|side| {
        let options = braid::QpOptions::new(&side.cq, &side.cq);
        side.pd.create_qp(options).unwrap()
    });
    // Whoever asked over UDP first would ask it again from now on.
    let silent = UdpSocket::bind(pair.b.engine.local_addr()).unwrap();
    silent.set_nonblocking(true).unwrap();
    let listener = pair.b.engine.listen(4).unwrap();
    connect(&here, &listener, &there, &[]);
    assert_eq!(here.protocol(), Some("TCP"));
    assert_eq!(fallback(&here), why);
    assert!(silent.recv(&mut [0; 2000]).is_err(), "nothing was sent over UDP");
}

#[test]
fn listener_accepts_both_at_once() {
    let theirs = Side::new(&config(Datapath::Auto), |_| {});
    let listener = theirs.engine.listen(4).unwrap();
    let second = theirs.pd.create_qp(braid::QpOptions::new(&theirs.cq, &theirs.cq)).unwrap();
    let other = Side::new(&config(Datapath::Tcp), |_| {});
    connect(&other.qp, &listener, &second, &[]);
    let ours = Side::new(&config(Datapath::Auto), |_| {});
    let pair = Pair::connected([ours, theirs], &listener, listener.local_addr(), &[]);
    transfer(&pair, 1);
    assert_eq!((fallback(&pair.a.qp), fallback(&pair.b.qp)), (None, None));
    let why = fallback(&second).expect("the TCP engine has connected to it");
    assert!(why.starts_with("the peer has chosen TCP"), "{why}");
    assert_eq!(fallback(&other.qp), None, "its datapath is TCP");
}

#[test]
fn keyed_connection_falls_back() {
    let security = Some(Security::new(Key::new([7; 32])));
    let with_key = |datapath| EngineConfig { security: security.clone(), ..config(datapath) };
    let pair = pair(with_key(Datapath::Auto), with_key(Datapath::Tcp));
    assert!(fallback(&pair.a.qp).is_some());
}

#[test]
fn several_threads_fall_back() {
    let threads = |datapath| EngineConfig { progress: Progress::Threads(2), ..config(datapath) };
    for theirs in [Datapath::Auto, Datapath::Tcp] {
        let is_tcp = matches!(theirs, Datapath::Tcp);
        let pair = pair(threads(Datapath::Auto), threads(theirs));
        assert_eq!(fallback(&pair.a.qp).is_some(), is_tcp);
    }
}

#[test]
fn address_without_listener_answers_by_udp_alone() {
    let (ours, theirs) = (config(Datapath::Auto), config(Datapath::Auto));
    let (a, b) = (Side::new(&ours, |_| {}), Engine::new(theirs).unwrap());
    let started = Instant::now();
    let error = a.qp.connect(b.local_addr(), &[], PATIENCE).unwrap_err();
    assert!(matches!(error, ConnectError::Rejected { .. }), "{error}");
    assert!(started.elapsed() < PATIENCE / 2, "no other carrier was tried");
}

#[test]
fn host_without_either_port_is_unreachable() {
    let a = Side::new(&config(Datapath::Auto), |_| {});
    let gone = Engine::new(config(Datapath::Auto)).unwrap().local_addr();
    let error = a.qp.connect(gone, &[], PATIENCE).unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}
