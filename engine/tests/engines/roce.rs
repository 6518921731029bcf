//! Plain RoCEv2 between two engines over UDP.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braid::{
    Datapath, EndCause, Engine, EngineConfig, Faults, Progress, QpId, QpOptions, QpState,
    RemoteRegion, RoceError, RoceMtu, RoceRemote, Status, wr,
};

use crate::faults::every_operation_arrives;
use crate::pair::{Pair, Side, local};

/// The end of `side` as its peer is told.
fn end_of(side: &Side, mtu: Option<RoceMtu>) -> RoceRemote {
    let addr = side.engine.local_addr();
    let mut end = RoceRemote::new(addr.ip(), side.qp.number());
    (end.port, end.mtu) = (addr.port(), mtu);
    // The PSNs wrap soon.
    (end.recv_psn, end.send_psn) = (0xFF_FFF0, 0xFF_FFF0);
    end.ack_timeout = Duration::from_millis(20);
    end.retry_count = 100;
    end
}

fn connect(sides: [Side; 2], mtu: Option<RoceMtu>) -> Pair {
    let [a, b] = sides;
    a.qp.connect_roce(&end_of(&b, mtu)).unwrap();
    b.qp.connect_roce(&end_of(&a, mtu)).unwrap();
    let remote = b.memory.remote();
    Pair { a, b, remote }
}

/// Loopback addresses of both IP versions, with both kinds of progress.
pub(crate) fn configs() -> impl Iterator<Item = EngineConfig> {
    let loopback = ["127.0.0.1:0", "[::1]:0"].into_iter();
    loopback.flat_map(|bind| {
        let bind = bind.parse().unwrap();
        [Progress::Threads(1), Progress::Application].map(|progress| EngineConfig {
            bind,
            progress,
            linger: Duration::ZERO,
            ..local()
        })
    })
}

#[test]
fn every_operation_arrives_with_every_path_mtu() {
    for config in configs() {
        for mtu in RoceMtu::ALL.map(Some).into_iter().chain([None]) {
            let pair = connect([Side::new(&config, |_| {}), Side::new(&config, |_| {})], mtu);
            assert_eq!(pair.a.qp.protocol(), Some("RoCEv2"));
            let payload = mtu.map_or(4096, RoceMtu::bytes);
            assert_eq!(pair.a.qp.packet_payload(), Some(payload as u16));
            every_operation_arrives(&pair);
        }
    }
}

#[test]
fn every_operation_arrives_with_faults() {
    for faults in [
        Faults { drop: 0.02, seed: 21, ..Faults::default() },
        Faults { reorder: 0.05, duplicate: 0.1, seed: 22, ..Faults::default() },
        Faults { corrupt: 0.02, seed: 23, ..Faults::default() },
    ] {
        for config in configs() {
            let config = EngineConfig { faults, ..config };
            let sides = [Side::new(&config, |_| {}), Side::new(&config, |_| {})];
            every_operation_arrives(&connect(sides, Some(RoceMtu::B1024)));
        }
    }
}

#[test]
fn wildcard_addresses_of_both_versions_are_found() {
    for (bind, gid) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let gid: IpAddr = gid.parse().unwrap();
        let config = EngineConfig { bind: bind.parse().unwrap(), ..local() };
        let sides = [Side::new(&config, |_| {}), Side::new(&config, |_| {})];
        let port = sides[0].engine.roce_port(SocketAddr::new(gid, 9)).unwrap();
        assert_eq!((port.gid, port.mtu), (gid, RoceMtu::B4096));
        for (own, peer) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let mut end = end_of(peer, None);
            end.gid = gid;
            own.qp.connect_roce(&end).unwrap();
        }
        let [a, b] = sides;
        let remote = b.memory.remote();
        every_operation_arrives(&Pair { a, b, remote });
    }
}

#[test]
fn refusal_has_the_statuses_of_verbs_at_both_ends() {
    let pair = connect([Side::new(&local(), |_| {}), Side::new(&local(), |_| {})], None);
    let piece = || [pair.a.memory.slice(..100).unwrap()];
    let nowhere = RemoteRegion { rkey: pair.remote.rkey ^ 1, ..pair.remote };
    pair.a.qp.post_send(wr::write(1, piece(), pair.remote.at(0))).unwrap();
    pair.a.qp.post_send(wr::write(2, piece(), nowhere.at(0))).unwrap();
    pair.a.qp.post_send(wr::write(3, piece(), pair.remote.at(0))).unwrap();
    let ended = pair.completions(&pair.a, 3);
    let statuses: Vec<Status> = ended.iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::Success, Status::RemoteAccess, Status::Flushed]);
    let cause = pair.a.qp.error().unwrap().cause;
    assert_eq!(cause, EndCause::RefusedByPeer(Status::RemoteAccess));
    let cause = pair.b.qp.error().unwrap().cause;
    assert_eq!(cause, EndCause::RefusedHere(Status::RemoteAccess));
}

#[test]
fn silent_peer_ends_the_queue_pair_and_reset_makes_it_new() {
    let side = Side::new(&local(), |_| {});
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut remote = RoceRemote::new("127.0.0.1".parse().unwrap(), QpId::new(2));
    remote.port = nobody.local_addr().unwrap().port();
    (remote.ack_timeout, remote.retry_count) = (Duration::from_millis(2), 3);
    side.qp.connect_roce(&remote).unwrap();
    side.qp.post_send(wr::send(1, [side.memory.slice(..10).unwrap()])).unwrap();
    let ended: Vec<_> = side.cq.wait(Duration::from_secs(10)).unwrap().into_iter().collect();
    assert_eq!(ended[0].status, Status::RetryExceeded);
    assert_eq!(side.qp.error().unwrap().cause, EndCause::PeerSilent);
    assert!(matches!(side.qp.connect_roce(&remote), Err(RoceError::State { .. })));

    side.qp.modify(QpState::Reset).unwrap();
    assert_eq!(side.qp.outstanding(), (0, 0));
    side.qp.modify(QpState::Init).unwrap();
    let other = Side::new(&local(), |_| {});
    every_operation_arrives(&connect([side, other], None));
}

#[test]
fn shared_receive_queue_provides_the_receives() {
    let sides = [Side::new(&local(), |_| {}), Side::new(&local(), |_| {})];
    let [a, mut b] = sides;
    let srq = b.pd.create_srq(8, 1).unwrap();
    let options = QpOptions { srq: Some(srq.clone()), ..QpOptions::new(&b.cq, &b.cq) };
    b.qp = b.pd.create_qp(options).unwrap();
    for id in 0..4 {
        let at = 4096 * id as usize;
        srq.post_recv(wr::recv(id, [b.memory.slice(at..at + 4096).unwrap()])).unwrap();
    }
    let pair = connect([a, b], Some(RoceMtu::B256));
    for id in 0..4 {
        pair.a.qp.post_send(wr::send(id, [pair.a.memory.slice(..1000).unwrap()])).unwrap();
    }
    pair.successes(&pair.a, 4);
    let ids: Vec<u64> = pair.successes(&pair.b, 4).iter().map(|done| done.wr_id).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
}

#[test]
fn peer_knows_a_queue_pair_by_the_number_that_it_was_told() {
    let sides = [Side::new(&local(), |_| {}), Side::new(&local(), |_| {})];
    let [a, b] = &sides;
    let own = QpId::new(a.qp.number().get() ^ 0x12_3456);
    let mut to_b = end_of(b, None);
    to_b.own_qp = Some(own);
    a.qp.connect_roce(&to_b).unwrap();
    let mut to_a = end_of(a, None);
    to_a.qp = own;
    b.qp.connect_roce(&to_a).unwrap();
    let other = a.pd.create_qp(QpOptions::new(&a.cq, &a.cq)).unwrap();
    assert!(
        matches!(other.connect_roce(&to_b), Err(RoceError::Number { number }) if number == own)
    );
    let [a, b] = sides;
    let remote = b.memory.remote();
    let pair = Pair { a, b, remote };
    every_operation_arrives(&pair);
    // The number is free again.
    pair.a.qp.modify(QpState::Reset).unwrap();
    other.connect_roce(&to_b).unwrap();
}

#[test]
fn sending_parameters_follow_those_of_receiving() {
    let sides = [Side::new(&local(), |_| {}), Side::new(&local(), |_| {})];
    for (own, peer) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        let end = end_of(peer, None);
        assert!(matches!(own.qp.set_roce_sending(&end), Err(RoceError::Sending { .. })));
        let mut receiving = end;
        (receiving.send_psn, receiving.retry_count, receiving.max_rd_atomic) = (5, 0, 0);
        own.qp.connect_roce(&receiving).unwrap();
        own.qp.set_roce_sending(&end).unwrap();
    }
    let [a, b] = sides;
    let remote = b.memory.remote();
    every_operation_arrives(&Pair { a, b, remote });
}

/// The text of the error of connecting an engine to a peer.
fn refusal(config: &EngineConfig, gid: &str, change: impl FnOnce(&mut RoceRemote)) -> String {
    let engine = Engine::new(config.clone()).unwrap();
    let cq = engine.create_cq(8).unwrap();
    let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq)).unwrap();
    let mut remote = RoceRemote::new(gid.parse().unwrap(), QpId::new(2));
    remote.port = 1;
    change(&mut remote);
    qp.connect_roce(&remote).unwrap_err().to_string()
}

#[test]
fn errors_name_the_remedy() {
    let tcp = EngineConfig { datapath: Datapath::Tcp, ..local() };
    for (config, gid, port, words) in [
        (&tcp, "127.0.0.1", 1, "create the engine with `udp`"),
        (&local(), "::1", 1, "peer's GID of that version"),
    ] {
        let says = refusal(config, gid, |remote| remote.port = port);
        assert!(says.contains(words), "{says}");
    }
}
