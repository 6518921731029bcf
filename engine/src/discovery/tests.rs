use super::*;
use crate::{Engine, EngineConfig, Progress};

/// A configuration that does not wait long for answers that never come.
const HASTY: DiscoveryConfig = DiscoveryConfig {
    max_ttl: 4,
    timeout: Duration::from_millis(20),
    tries: 2,
    spacing: Duration::ZERO,
    patience: Duration::from_millis(50),
};

/// A configuration for tests in which every answer comes, even late on a machine under load.
const PATIENT: DiscoveryConfig =
    DiscoveryConfig { timeout: Duration::from_secs(1), tries: 100, ..HASTY };

/// Paths above those of other tests.
fn paths(count: u16) -> impl Iterator<Item = PathId> {
    (0..count).map(|path| PathId::new(0x700 + path))
}

/// A port that no other process can take, and that is closed to all but its own socket: a connected
/// socket receives from its peer only.
struct ClosedPort {
    to: SocketAddr,
    _socket: UdpSocket,
}

fn closed_port(ip: &str) -> ClosedPort {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    let to = socket.local_addr().unwrap();
    // To itself.
    socket.connect(to).unwrap();
    ClosedPort { to, _socket: socket }
}

/// Checks that there is one route with the destination as its only hop.
fn assert_direct(map: &PathMap, count: u16) {
    let way = Way { hops: vec![Some(map.to.ip())], ports: paths(count).collect() };
    assert_eq!((&map.ways, map.unanswered), (&vec![way], 0));
    assert!(map.is_complete());
    assert_eq!(map.balanced(64), None, "one way is nothing to balance");
}

#[test]
fn a_host_next_door_is_one_way() {
    for from in ["127.0.0.1", "0.0.0.0", "::"] {
        let port = closed_port("127.0.0.1");
        let map = discover(port.to, from.parse().unwrap(), paths(70), PATIENT).unwrap();
        assert_direct(&map, 70);
    }
}

#[test]
fn ipv6_too() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return;
    }
    for from in ["::1", "::", "0.0.0.0"] {
        let port = closed_port("::1");
        let map = discover(port.to, from.parse().unwrap(), paths(5), PATIENT).unwrap();
        assert_direct(&map, 5);
    }
}

#[test]
fn an_engine_answers_and_forgets() {
    let bind = "127.0.0.1:0".parse().unwrap();
    let config = EngineConfig { bind, progress: Progress::Threads(1), ..EngineConfig::default() };
    let engine = Engine::new(config).unwrap();
    let to = engine.local_addr();
    let map = discover(to, to.ip(), paths(5), PATIENT).unwrap();
    assert_direct(&map, 5);
}

#[test]
fn answers_without_the_nonce_do_not_count() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 100];
        server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut echoed = 0;
        while let Ok((len, from)) = server.recv_from(&mut bytes) {
            server.send_to(&bytes[..len], from).unwrap();
            echoed += 1;
        }
        echoed
    });
    let map = discover(to, to.ip(), paths(3), HASTY).unwrap();
    assert!(echo.join().unwrap() > 3);
    assert_eq!((map.ways.len(), map.unanswered), (0, 3));
    assert_eq!(map.balanced(3), None);
    assert!(!map.is_complete());
}

#[test]
fn nothing_asked_nothing_found() {
    let port = closed_port("127.0.0.1");
    let to = port.to;
    let map = discover(to, to.ip(), [], HASTY).unwrap();
    assert_eq!((map.ways.len(), map.unanswered), (0, 0));
    let mute = DiscoveryConfig { tries: 0, ..HASTY };
    let map = discover(to, to.ip(), paths(3), mute).unwrap();
    assert_eq!((map.ways.len(), map.unanswered), (0, 3));
}

#[test]
fn invalid_arguments_are_errors() {
    let fail = |to: &str, from: &str| {
        discover(to.parse().unwrap(), from.parse().unwrap(), paths(1), HASTY).unwrap_err()
    };
    assert!(matches!(fail("127.0.0.1:0", "::"), DiscoveryError::NoDestinationPort { .. }));
    assert!(matches!(fail("127.0.0.1:9", "::1"), DiscoveryError::OtherFamily { .. }));
    assert!(matches!(fail("[::1]:9", "127.0.0.1"), DiscoveryError::OtherFamily { .. }));
    // The address is not of this machine.
    assert!(matches!(fail("127.0.0.1:9", "192.0.2.1"), DiscoveryError::Port { .. }));
}

#[test]
fn a_mapped_address_is_ipv4() {
    let port = closed_port("127.0.0.1");
    let to = port.to;
    let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), to.port());
    let map = discover(mapped, to.ip(), paths(2), PATIENT).unwrap();
    assert_eq!(map.to, to);
    assert_direct(&map, 2);
}
