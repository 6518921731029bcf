//! Hosts with several addresses: the address that an engine answers from, and the address that is
//! tried. All of 127.0.0.0/8 belong to this host, and its routing table prefers 127.0.0.1.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Side, local, over_sockets};
use braid::{ConnectError, Datapath, EngineConfig, Progress};

fn side(bind: &str, workers: usize) -> Side {
    side_over(Datapath::Udp, bind, workers)
}

fn side_over(datapath: Datapath, bind: &str, workers: usize) -> Side {
    let (bind, progress) = (bind.parse().unwrap(), Progress::Threads(workers));
    Side::new(&EngineConfig { datapath, bind, progress, ..local() }, |_| {})
}

/// The same port at another address.
fn at(ip: [u8; 4], side: &Side) -> SocketAddr {
    (ip, side.engine.local_addr().port()).into()
}

#[test]
fn a_peer_is_answered_from_the_address_that_it_has_called() {
    let ways = [("0.0.0.0:0", 1), ("[::]:0", 1), ("0.0.0.0:0", 2)];
    let ways = over_sockets().into_iter().flat_map(|over| ways.map(|way| (over.clone(), way)));
    for (over, (bind, workers)) in ways {
        let client = side_over(over.clone(), "127.0.0.1:0", 1);
        let server = side_over(over, bind, workers);
        let listener = server.engine.listen(1).unwrap();
        let called = at([127, 0, 0, 5], &server);
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = listener.accept(PATIENCE).unwrap();
                request.accept(&server.qp, b"yes").unwrap();
            });
            assert_eq!(client.qp.connect(called, &[], PATIENCE).unwrap(), b"yes");
        });
        let peer = client.qp.remote_addr().unwrap();
        assert_eq!(peer.ip(), called.ip(), "{bind}, {workers} workers");
    }
}

#[test]
fn all_addresses_of_a_host_are_tried() {
    over_sockets().into_iter().for_each(try_all_addresses);
}

fn try_all_addresses(over: Datapath) {
    let client = side_over(over.clone(), "127.0.0.1:0", 1);
    let server = side_over(over, "127.0.0.7:0", 1);
    // An address without a route, two without a receiver, and one of the other IP version.
    let wrong = [[192, 0, 2, 1], [127, 0, 0, 8], [127, 0, 0, 9]].map(|ip| at(ip, &server));
    let mut addrs = wrong.to_vec();
    addrs.push("[::1]:9".parse().unwrap());
    addrs.push(server.engine.local_addr());
    let listener = server.engine.listen(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            listener.accept(PATIENCE).unwrap().accept(&server.qp, b"yes").unwrap();
        });
        assert_eq!(client.qp.connect_any(&addrs, &[], PATIENCE).unwrap(), b"yes");
    });
    assert_eq!(client.qp.remote_addr(), Some(server.engine.local_addr()));
}

/// The error comes as soon as with one address, and not after the time-out.
#[test]
fn a_host_at_none_of_whose_addresses_anybody_receives_is_unreachable() {
    let (client, gone) = (side("127.0.0.1:0", 1), side("127.0.0.7:0", 1));
    let addrs = [[127, 0, 0, 8], [127, 0, 0, 9]].map(|ip| at(ip, &gone));
    let start = Instant::now();
    let error = client.qp.connect_any(&addrs, &[], PATIENCE).unwrap_err();
    let is_first = matches!(error, ConnectError::Unreachable { addr, .. } if addr == addrs[0]);
    assert!(is_first, "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
