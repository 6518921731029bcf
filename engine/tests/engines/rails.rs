//! Connections over several rails: loopback addresses, each with sockets of its own.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{MEMORY, PATIENCE, Pair, Side, connect, local, over_sockets};
use crate::scripted::Scripted;
use braid::{Engine, EngineConfig, EngineError, PathsTo, RailScheme, wr};
use braid_wire::{Control, ControlKind, FurtherRail, Offer, Packet, QpId, Setup, Token};

/// 127.0.0.1 to 127.0.0.`count`.
fn rails(count: u8) -> EngineConfig {
    let further = (2..=count).map(|last| IpAddr::from([127, 0, 0, last])).collect();
    EngineConfig { rails: further, ..local() }
}

/// The same rails over UDP and over TCP.
fn rails_over_each(count: u8) -> impl Iterator<Item = EngineConfig> {
    over_sockets().into_iter().map(move |datapath| EngineConfig { datapath, ..rails(count) })
}

/// The number of sent packets by rail.
fn sent(engine: &Engine) -> Vec<u64> {
    let of_rail = |to: &PathsTo| to.paths.iter().map(|path| path.counters.sent).sum();
    engine.paths().iter().map(of_rail).collect()
}

/// Writes all of `a`'s memory to `b` repeatedly until `done`.
fn write_until(pair: &Pair, done: impl Fn(&Pair) -> bool) {
    let began = Instant::now();
    for round in 0u8.. {
        let data: Vec<u8> = (0..MEMORY).map(|at| (at / 251) as u8 ^ round).collect();
        pair.a.memory.write_at(0, &data).unwrap();
        let all = pair.a.memory.slice(..).unwrap();
        pair.a.qp.post_send(wr::write(round.into(), [all], pair.remote.at(0))).unwrap();
        pair.successes(&pair.a, 1);
        assert!(pair.b.bytes(0..MEMORY) == data, "round {round}");
        if done(pair) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", sent(&pair.a.engine));
    }
}

#[test]
fn all_rails_of_both_ends_carry_data_under_every_policy_that_spreads() {
    for scheme in [RailScheme::LEAST_LOADED, RailScheme::ROUND_ROBIN, RailScheme::LPT] {
        for config in rails_over_each(2).chain(rails_over_each(4)) {
            let count = config.rails.len() + 1;
            let pair = Pair::new(&EngineConfig { rail_policy: scheme, ..config });
            write_until(&pair, |pair| {
                let sent = sent(&pair.a.engine);
                sent.len() == count && sent.iter().all(|packets| *packets > 100)
            });
        }
    }
}

#[test]
fn operations_stay_in_order_over_rails() {
    rails_over_each(3).for_each(|config| stay_in_order(&Pair::new(&config)));
}

fn stay_in_order(pair: &Pair) {
    write_until(pair, |pair| sent(&pair.a.engine).iter().all(|packets| *packets > 10));
    for round in 0..20u64 {
        pair.b.post_recv(round, 0..65_536);
    }
    let piece = || pair.a.memory.slice(..50_000).unwrap();
    for round in 0..20 {
        pair.a.qp.post_send(wr::send_imm(round, [piece()], round as u32)).unwrap();
    }
    let numbers: Vec<_> = pair.successes(&pair.b, 20).iter().map(|done| done.imm).collect();
    assert_eq!(numbers, (0..20).map(Some).collect::<Vec<_>>());
    pair.successes(&pair.a, 20);
}

#[test]
fn a_connection_has_the_rails_that_both_ends_have() {
    for (more, fewer) in rails_over_each(4).zip(rails_over_each(2)) {
        have_two(Side::new(&more, |_| {}), Side::new(&fewer, |_| {}));
    }
}

fn have_two(a: Side, b: Side) {
    let listener = b.engine.listen(8).unwrap();
    let private = connect(&a.qp, &listener, &b.qp, &b.memory.remote().to_bytes());
    let remote = braid::RemoteRegion::from_bytes(&private).unwrap();
    let pair = Pair { a, b, remote };
    write_until(&pair, |pair| sent(&pair.a.engine).iter().all(|packets| *packets > 10));
    assert_eq!((sent(&pair.a.engine).len(), sent(&pair.b.engine).len()), (2, 2));
}

/// An engine with two rails and much to send to a peer, whose second rail is at `named`.
struct Named {
    _side: Side,
    _peer: Scripted,
    named: Scripted,
    /// The offer of the engine with the address of its second rail.
    offer: Offer,
    rail: SocketAddr,
}

impl Named {
    fn new() -> Self {
        let (side, peer) = (Side::new(&rails(2), |_| {}), Scripted::new());
        let named = Scripted::at("127.0.0.3:0".parse().unwrap());
        let (offer, rail) = thread::scope(|scope| {
            let (qp, addr) = (&side.qp, peer.addr());
            scope.spawn(move || qp.connect(addr, &[], PATIENCE).unwrap());
            let connect = peer.hear_connect();
            let mut accept = crate::scripted::answer(connect.what.nonce, 0, QpId::new(9), Token(5));
            accept.routing.rails = vec![FurtherRail { addr: named.addr(), nic: Vec::new() }];
            peer.send_setup(connect.from, &Setup::Accept(accept));
            (connect.what.offer, connect.what.routing.rails[0].addr)
        });
        for id in 0..16 {
            let all = side.memory.slice(..).unwrap();
            side.qp.post_send(wr::write(id, [all], side.memory.remote().at(0))).unwrap();
        }
        Named { _side: side, _peer: peer, named, offer, rail }
    }

    /// Answers a PING, with the bits `changed` flipped in the stamp.
    fn answer(&self, ping: &Control, changed: u32) {
        let Offer { qp, token, .. } = self.offer;
        let stamp = ping.stamp ^ changed;
        let pong = Control { kind: ControlKind::Pong, qp, token, stamp, from: ping.qp };
        self.named.send_control(self.rail, pong);
    }

    /// Whether one of the next packets on the second rail is not a PING.
    fn gets_data(&self, packets: usize) -> bool {
        let is_data = |packet: Packet<'_>| match packet {
            Packet::Control(control) => Some(control.kind != ControlKind::Ping),
            _ => Some(true),
        };
        (0..packets).any(|_| self.named.hear(is_data).what)
    }
}

#[test]
fn nothing_but_pings_goes_to_a_rail_that_has_not_answered_one() {
    let named = Named::new();
    let began = Instant::now();
    assert!(!named.gets_data(10), "data goes to a host that has not asked for it");
    // The intervals are 2 + 4 + .. + 128 + 250 + 250 ms.
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
}

#[test]
fn a_rail_whose_ping_was_answered_carries_data() {
    let named = Named::new();
    let ping = named.named.hear_control(ControlKind::Ping).what;
    named.answer(&ping, 0);
    assert!(named.gets_data(10));
}

#[test]
fn a_guessed_pong_gets_no_data() {
    let named = Named::new();
    let ping = named.named.hear_control(ControlKind::Ping).what;
    (1..=64).for_each(|guess| named.answer(&ping, guess));
    named.answer(&ping, 0);
    thread::sleep(Duration::from_millis(300));
    // Reads the packets that have arrived, up to one of this test.
    named.named.send_control(named.named.addr(), Control { kind: ControlKind::Pong, ..ping });
    let first = named.named.hear(|packet| match packet {
        Packet::Control(control) if control.kind == ControlKind::Ping => None,
        other => Some(matches!(other, Packet::Control(_))),
    });
    assert!(first.what, "data goes to who has guessed");
}

#[test]
fn rails_that_cannot_be_are_refused_with_their_addresses() {
    let refused = |config: EngineConfig| match Engine::new(config) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("these rails were taken"),
    };
    let with = |further: &[&str]| EngineConfig {
        rails: further.iter().map(|ip| ip.parse().unwrap()).collect(),
        ..local()
    };
    for (further, why) in [
        (&["::1"][..], "IPv4 addresses only"),
        (&["127.0.0.1"], "each address is one rail"),
        (&["127.0.0.2", "127.0.0.2"], "each address is one rail"),
        (&["0.0.0.0"], "an address of its own"),
        (&["127.0.0.2"; 8], "at most 8"),
    ] {
        let message = refused(with(further));
        assert!(message.contains(why) && message.contains(further[0]), "{message}");
    }
    let foreign = refused(with(&["192.0.2.1"]));
    assert!(foreign.contains("cannot receive on 192.0.2.1"), "{foreign}");
    let anywhere = EngineConfig { bind: "0.0.0.0:0".parse().unwrap(), ..with(&["127.0.0.2"]) };
    assert!(matches!(Engine::new(anywhere), Err(EngineError::Rails { .. })));
}

#[test]
fn a_quiet_connection_over_rails_ends_well() {
    let pair = Pair::new(&rails(2));
    pair.quiet(Duration::from_millis(20));
}
