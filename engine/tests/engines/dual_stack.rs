//! An engine at two addresses, one of each IP version.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::pair::{MEMORY, PATIENCE, Pair, Side, local};
use braid::{
    Access, ConnectError, Datapath, Engine, EngineConfig, EngineError, MemFabric, Progress,
    QpOptions, QpState, wr,
};

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A configuration for 127.0.0.1 and ::1.
fn both() -> EngineConfig {
    EngineConfig { second_addr: Some(V6), ..local() }
}

fn only_v6() -> EngineConfig {
    EngineConfig { bind: SocketAddr::new(V6, 0), ..local() }
}

/// Whether this machine has IPv6, which containers often lack.
fn has_ipv6() -> bool {
    UdpSocket::bind((V6, 0)).is_ok()
}

/// Sends data in both directions.
fn exchange(pair: &Pair) {
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        to.post_recv(1, 0..65_536);
        let piece = from.memory.slice(..50_000).unwrap();
        from.qp.post_send(wr::send(2, [piece])).unwrap();
        pair.successes(from, 1);
        pair.successes(to, 1);
    }
}

/// Another queue pair of the same engine.
fn another(of: &Side) -> Side {
    let (engine, pd) = (of.engine.clone(), of.pd.clone());
    let cq = engine.create_cq(64).unwrap();
    let memory = pd.alloc_mr(MEMORY, Access::ALL).unwrap();
    let qp = pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    Side { engine, pd, cq, qp, memory }
}

#[test]
fn it_is_reached_at_both_and_reaches_peers_of_both_versions() {
    if !has_ipv6() {
        return;
    }
    let all = [Datapath::Udp, Datapath::Tcp, Datapath::Auto];
    for (datapath, threads) in all.into_iter().flat_map(|one| [(one.clone(), 1), (one, 2)]) {
        let progress = Progress::Threads(threads);
        let [v4, v6, both] = [local(), only_v6(), both()]
            .map(|config| EngineConfig { datapath: datapath.clone(), ..config });
        let server = Side::new(&EngineConfig { progress, ..both }, |_| {});
        let listener = server.engine.listen(8).unwrap();
        let at_v4 = server.engine.local_addr();
        assert!(at_v4.is_ipv4());
        // Both connect to one listener.
        let mut pairs = Vec::new();
        for (config, to) in [(&v4, at_v4), (&v6, SocketAddr::new(V6, at_v4.port()))] {
            let ends = [Side::new(config, |_| {}), another(&server)];
            pairs.push(Pair::connected(ends, &listener, to, &[]));
        }
        for config in [&v4, &v6] {
            let peer = Side::new(config, |_| {});
            let listener = peer.engine.listen(8).unwrap();
            let to = listener.local_addr();
            pairs.push(Pair::connected([another(&server), peer], &listener, to, &[]));
        }
        // All connections exist at the same time.
        for _ in 0..3 {
            pairs.iter().for_each(exchange);
        }
    }
}

#[test]
fn one_address_reaches_no_peer_of_the_other_version() {
    let v4 = Side::new(&local(), |_| {});
    let refused = v4.qp.connect(SocketAddr::new(V6, 4791), b"", PATIENCE);
    assert!(matches!(refused, Err(ConnectError::Unreachable { .. })), "{refused:?}");
}

#[test]
fn the_port_has_to_be_free_at_both() {
    if !has_ipv6() {
        return;
    }
    let taken = UdpSocket::bind((V6, 0)).unwrap();
    let mut config = both();
    config.bind.set_port(taken.local_addr().unwrap().port());
    let refused = Engine::new(config).err();
    let Some(EngineError::Bind { addr, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(addr, taken.local_addr().unwrap());
}

#[test]
fn invalid_configurations_are_named() {
    let wrong = [
        (EngineConfig { second_addr: Some([127, 0, 0, 2].into()), ..local() }, "of IPv6"),
        (EngineConfig { second_addr: Some([0; 4].into()), ..only_v6() }, "`[::]` alone"),
        (EngineConfig { rails: vec![[127, 0, 0, 2].into()], ..both() }, "further rails"),
        (EngineConfig { discover: true, ..both() }, "`discover`"),
        (EngineConfig { datapath: Datapath::Mem(MemFabric::new()), ..both() }, "`tcp`"),
        (EngineConfig { datapath: Datapath::Xdp, ..both() }, "`tcp`"),
    ];
    for (config, word) in wrong {
        let error = Engine::new(config).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("cannot receive on"), "{error}");
    }
}
