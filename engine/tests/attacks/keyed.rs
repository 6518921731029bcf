//! Keyed connections over real sockets: peers with the key, peers without, and an attacker on the
//! path.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::forger::Forger;
use crate::pair::{MEMORY, PATIENCE, Pair, Side, connect, local, reachable};
use crate::relay::Relay;
use braid::{
    Agreed, AllowList, Cipher, ConnectError, Engine, EngineConfig, EngineError, Faults, Key,
    Listener, PrivateKey, Protection, RejectReason, Security, StaticKeys, Status, VerbsOptions, wr,
};
use braid_wire::{BASE_DATAGRAM, Hello, Packet, SealedOffer, Setup};

fn keyed(byte: u8) -> Security {
    Security::new(Key::new([byte; 32]))
}

/// A configuration with the private key of `own`, which allows these public keys.
fn own(own: u8, allowed: &[(u8, &str)]) -> Security {
    let private = |byte: u8| PrivateKey::new([byte; 32]);
    let line = |(byte, rest): &(u8, &str)| format!("{} {rest}\n", private(*byte).public());
    let text: String = allowed.iter().map(line).collect();
    Security::new(StaticKeys::new(private(own), AllowList::parse(&text).unwrap()))
}

/// The configurations of both ends, with a shared key and with private keys, and the reason that an
/// initiator without the key gets.
fn both_forms() -> [([Security; 2], RejectReason); 2] {
    let own = [own(1, &[(2, "# b")]), own(2, &[(1, "# a")])];
    [([keyed(7), keyed(7)], RejectReason::WrongKey), (own, RejectReason::NotAllowed)]
}

fn with(security: Security) -> EngineConfig {
    EngineConfig { security: Some(security), ..local() }
}

/// Runs a test over every protection, cipher and datapath.
fn everywhere(test: impl Fn(&Pair, Agreed)) {
    for (name, config) in crate::pair::configs() {
        for protection in [Protection::Authenticate, Protection::Encrypt] {
            for cipher in Cipher::ALL {
                println!("-- {name}, {protection:?}, {cipher}");
                let mut security = keyed(7);
                security.protection = protection;
                security.ciphers = vec![cipher];
                let config = EngineConfig { security: Some(security), ..config.clone() };
                let pair = Pair::new(&config);
                let agreed = pair.a.qp.security().expect("it is keyed");
                assert_eq!((agreed.protection, agreed.cipher), (protection, cipher));
                assert_eq!(pair.b.qp.security(), Some(agreed));
                test(&pair, agreed);
            }
        }
    }
}

/// Writes other bytes than the previous round and checks all of them.
fn write(pair: &Pair, round: u64, len: usize) {
    let bytes: Vec<u8> = (0..len).map(|at| (at as u64 * 31 + round) as u8).collect();
    pair.a.memory.write_at(0, &bytes).unwrap();
    let piece = pair.a.memory.slice(..len).unwrap();
    pair.a.qp.post_send(wr::write(round, [piece], pair.remote.at(0))).unwrap();
    pair.successes(&pair.a, 1);
    assert!(pair.b.bytes(0..len) == bytes, "round {round}: other bytes have arrived");
}

#[test]
fn bytes_arrive_and_both_ends_say_goodbye() {
    everywhere(|pair, _| {
        for (round, len) in [1, 8, 1500, 100_000, 1 << 20].into_iter().enumerate() {
            write(pair, round as u64, len);
        }
        pair.b.post_recv(1, 0..16);
        pair.a.memory.write_at(0, b"a message").unwrap();
        let piece = pair.a.memory.slice(..9).unwrap();
        pair.a.qp.post_send(wr::send(2, [piece])).unwrap();
        pair.successes(&pair.b, 1);
        assert_eq!(pair.b.bytes(0..9), b"a message");
        pair.successes(&pair.a, 1);
        pair.b.post_recv(3, 0..16);
        pair.a.qp.disconnect();
        let flushed = pair.completions(&pair.b, 1);
        assert_ne!(flushed[0].status, Status::Success, "its peer has gone");
        let counters = pair.b.engine.counters();
        assert_eq!((counters.forged, counters.unprotected), (0, 0), "{counters:?}");
    });
}

#[test]
fn keys_change_in_the_middle_of_a_message_on_a_bad_network() {
    let mut security = keyed(7);
    security.key_packets_log2 = 8;
    let faults =
        Faults { drop: 0.02, reorder: 0.05, duplicate: 0.02, corrupt: 0.02, ..Faults::default() };
    let pair = Pair::new(&EngineConfig { mtu: Some(1024), faults, ..with(security) });
    for round in 0..3 {
        write(&pair, round, MEMORY / 2);
    }
    let (a, b) = (pair.a.qp.key_updates().unwrap(), pair.b.engine.counters());
    let packets = 3 * (MEMORY as u64 / 2 / 1024);
    assert!(a >= packets >> 8, "{a} changes of the key");
    assert!(b.forged > 0 && b.replayed > 0, "the network was not bad: {b:?}");
}

#[test]
fn keys_that_live_too_short_or_too_long_are_refused() {
    for (log2, is_taken) in [(0, false), (7, false), (8, true), (22, true), (23, false)] {
        let mut security = keyed(7);
        security.key_packets_log2 = log2;
        let made = Engine::new(with(security));
        assert_eq!(made.is_ok(), is_taken, "2^{log2}");
        let Err(error) = made else { continue };
        let text = error.to_string();
        assert!(text.starts_with(&format!("`key_packets_log2` is {log2}:")), "{text}");
        assert!(text.ends_with("take 8 to 22"), "{text}");
    }
}

#[test]
fn two_rails_share_a_key() {
    let rail = |ip: &str| EngineConfig {
        bind: "127.0.0.1:0".parse().unwrap(),
        rails: vec![ip.parse().unwrap()],
        ..with(keyed(7))
    };
    let config = rail("127.0.0.2");
    let pair = Pair::new(&config);
    let begin = Instant::now();
    let mut round = 0;
    let both = || {
        let used = pair.a.engine.paths();
        used.iter().filter(|to| to.paths.iter().any(|path| path.counters.sent > 9)).count() > 1
    };
    while !both() && begin.elapsed() < PATIENCE {
        write(&pair, round, 1 << 20);
        round += 1;
    }
    assert!(both(), "one rail has carried nothing: {:?}", pair.a.engine.paths());
    let counters = pair.b.engine.counters();
    assert_eq!((counters.forged, counters.replayed), (0, 0), "{counters:?}");
}

/// The error of connecting `client` to a listener with `server`, and its duration.
fn refused(client: EngineConfig, server: EngineConfig) -> (ConnectError, Duration) {
    let (client, server) = (Side::new(&client, |_| {}), Side::new(&server, |_| {}));
    let listener: Listener = server.engine.listen(8).unwrap();
    let begin = Instant::now();
    let addr = reachable(listener.local_addr());
    let error = client.qp.connect(addr, b"secret", PATIENCE).unwrap_err();
    assert!(listener.accept(Duration::from_millis(20)).is_none(), "the application hears of it");
    assert!(server.engine.counters().setup_refused > 0);
    (error, begin.elapsed())
}

#[test]
fn a_peer_without_the_key_is_rejected_at_once() {
    let only = |cipher| {
        let mut security = keyed(7);
        security.ciphers = vec![cipher];
        with(security)
    };
    let (aes, chacha) = (only(Cipher::Aes256Gcm), only(Cipher::ChaCha20Poly1305));
    for (client, server, expected) in [
        (with(keyed(7)), with(keyed(8)), RejectReason::WrongKey),
        (with(keyed(7)), local(), RejectReason::NoKey),
        (local(), with(keyed(7)), RejectReason::KeyRequired),
        (aes, chacha, RejectReason::Cipher),
    ] {
        let (error, took) = refused(client, server);
        let ConnectError::Rejected { reason, .. } = &error else { panic!("{error}") };
        assert_eq!(*reason, expected, "{error}");
        assert!(took < PATIENCE / 2, "{expected:?} took {took:?}");
    }
}

#[test]
fn hosts_with_keys_of_their_own_know_each_other_by_name() {
    let (a, b) = (own(1, &[(1, ""), (2, "# the other")]), own(2, &[(1, "# the one")]));
    let (a, b) = (Side::new(&with(a), |_| {}), Side::new(&with(b), |_| {}));
    let listener = b.engine.listen(8).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.accept(PATIENCE).expect("a connection request");
            assert_eq!(request.peer_name(), Some("the one"));
            request.accept(&b.qp, &b.memory.remote().to_bytes()).unwrap();
        });
        a.qp.connect(reachable(listener.local_addr()), b"", PATIENCE).unwrap();
    });
    assert_eq!(a.qp.peer_name().as_deref(), Some("the other"));
    assert_eq!(b.qp.peer_name().as_deref(), Some("the one"));
    let remote = b.memory.remote();
    let pair = Pair { a, b, remote };
    (0..3).for_each(|round| write(&pair, round, 100_000));
}

#[test]
fn a_key_that_is_not_allowed_is_rejected_without_revealing_the_list() {
    use RejectReason::{KeyForm, NoKey, NotAllowed, UnknownListener};
    let a = || own(1, &[(2, "")]);
    for (client, server, expected) in [
        (a(), with(own(2, &[(3, "")])), NotAllowed),
        (a(), with(own(2, &[(1, "until 2020-01-01 # a")])), NotAllowed),
        (a(), with(own(3, &[(1, "")])), UnknownListener),
        (own(1, &[(2, "until 2020-01-01 # b")]), with(own(2, &[(1, "")])), UnknownListener),
        (a(), with(keyed(7)), KeyForm),
        (keyed(7), with(own(2, &[(1, "")])), KeyForm),
        (a(), local(), NoKey),
    ] {
        let (error, took) = refused(with(client), server);
        let ConnectError::Rejected { reason, .. } = &error else { panic!("{error}") };
        assert_eq!(*reason, expected, "{error}");
        assert!(took < PATIENCE / 2, "{expected:?} took {took:?}");
    }
}

#[test]
fn a_listener_that_requires_no_key_accepts_peers_without() {
    let mut security = keyed(7);
    security.required = false;
    let (a, b) = (Side::new(&local(), |_| {}), Side::new(&with(security), |_| {}));
    let listener = b.engine.listen(8).unwrap();
    connect(&a.qp, &listener, &b.qp, &[]);
    assert_eq!((a.qp.security(), b.qp.security()), (None, None));
}

#[test]
fn there_are_no_keys_over_verbs() {
    let options = VerbsOptions {
        device: "none".to_owned(),
        port: 1,
        gid_index: None,
        service: braid::VerbsService::Uc,
    };
    let datapath = braid::Datapath::Verbs(options);
    let made = Engine::new(EngineConfig { datapath, ..with(keyed(7)) });
    assert!(matches!(made, Err(EngineError::KeyOverVerbs)));
}

/// Sends a set-up packet and reads the answer.
fn ask(socket: &UdpSocket, to: SocketAddr, packet: &Setup) -> Setup {
    let (mut bytes, mut answer) = (Vec::new(), [0; 2048]);
    packet.encode(&mut bytes);
    socket.send_to(&bytes, to).unwrap();
    // Other packets were meant for an earlier socket at this port, of any process.
    loop {
        let (len, from) = socket.recv_from(&mut answer).expect("an answer");
        if let Ok(Packet::Setup(setup)) = Packet::decode(&answer[..len])
            && from == to
        {
            return setup;
        }
    }
}

/// The next packet to a socket that only an initiator sends.
fn asked(socket: &UdpSocket) -> (SocketAddr, Setup) {
    let mut bytes = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut bytes).expect("somebody connects");
        if let Ok(Packet::Setup(setup @ (Setup::Hello(_) | Setup::SealedConnect(_)))) =
            Packet::decode(&bytes[..len])
        {
            return (from, setup);
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A cookie for this socket, which any host can get.
fn cookie(socket: &UdpSocket, server: SocketAddr, nonce: u64) -> u64 {
    match ask(socket, server, &Setup::Hello(Hello { nonce, len: BASE_DATAGRAM as u16 })) {
        Setup::Cookie { cookie, .. } => cookie,
        other => panic!("{other:?}"),
    }
}

/// The packets of a host that was refused often are ignored for a while if decrypting them is
/// expensive. The host connects all the same once it has the key.
#[test]
fn guesses_of_a_host_are_slowed_and_its_connections_are_not_lost() {
    for (ends, told) in both_forms() {
        let [a, b] = ends.map(|security| Side::new(&with(security), |_| {}));
        let listener = b.engine.listen(8).unwrap();
        let server = reachable(listener.local_addr());
        let socket = socket();
        let form = if told == RejectReason::WrongKey { 1 } else { 2 };
        let (mut refused, mut put_off) = (0, 0);
        for nonce in 0..1000 {
            let cookie = cookie(&socket, server, nonce);
            let message = vec![form; 200];
            match ask(
                &socket,
                server,
                &Setup::SealedConnect(SealedOffer { nonce, cookie, message }),
            ) {
                Setup::Reject(reject) if reject.reason == told => refused += 1,
                Setup::Reject(reject) if reject.reason == RejectReason::Busy => put_off += 1,
                other => panic!("{other:?}"),
            }
        }
        let is_dear = told == RejectReason::NotAllowed;
        assert!(refused >= 256 && (put_off > 0) == is_dear, "{refused} refused, {put_off} put off");
        connect(&a.qp, &listener, &b.qp, &[]);
        assert!(a.qp.security().is_some());
    }
}

/// An attacker that has captured a CONNECT can get a cookie of its own, which the message does not
/// match.
#[test]
fn a_connect_that_was_captured_opens_nothing() {
    for (ends, told) in both_forms() {
        captured_connect(ends, told);
    }
}

fn captured_connect(ends: [Security; 2], told: RejectReason) {
    let [a, b] = ends.map(|security| Side::new(&with(security), |_| {}));
    let listener = b.engine.listen(8).unwrap();
    let server = reachable(listener.local_addr());
    let (between, elsewhere) = (socket(), socket());
    let addr = between.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| a.qp.connect(addr, b"pay", PATIENCE / 4));
        let (client, Setup::Hello(hello)) = asked(&between) else { panic!("no HELLO") };
        let nonce = hello.nonce;
        let mut bytes = Vec::new();
        let hello = Setup::Hello(Hello { nonce, len: BASE_DATAGRAM as u16 });
        ask(&between, server, &hello).encode(&mut bytes);
        between.send_to(&bytes, client).unwrap();
        let captured = loop {
            match asked(&between) {
                (_, Setup::SealedConnect(sealed)) => break sealed,
                (_, Setup::Hello(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        let replayed =
            SealedOffer { cookie: cookie(&elsewhere, server, nonce), ..captured.clone() };
        assert_ne!(replayed.cookie, captured.cookie);
        let answer = ask(&elsewhere, server, &Setup::SealedConnect(replayed));
        let rejected = matches!(&answer, Setup::Reject(reject) if reject.reason == told);
        assert!(rejected, "{answer:?}");
        assert!(
            listener.accept(Duration::from_millis(50)).is_none(),
            "the application hears of it"
        );
        // With its own cookie the message is unchanged.
        bytes.clear();
        Setup::SealedConnect(captured).encode(&mut bytes);
        between.send_to(&bytes, server).unwrap();
        let request = listener.accept(PATIENCE).expect("a request");
        assert_eq!(request.private_data(), b"pay");
    });
}

/// Repeats, edits, cuts, reflects and sends unencrypted every packet that passes, in both
/// directions. Some packets are lost, and retransmissions have numbers of their own.
///
/// `BRAID_FORGERIES=10000000` continues until ten million forgeries were refused. The default is
/// 20,000.
#[test]
fn an_attacker_on_the_path_has_no_effect() {
    let protections = [Protection::Authenticate, Protection::Encrypt];
    for (protection, (ends, _)) in protections.into_iter().zip(both_forms()) {
        let [a, b] = ends.map(|security| {
            let mut security = security;
            security.protection = protection;
            Side::new(&EngineConfig { mtu: Some(1024), ..with(security) }, |_| {})
        });
        let listener = b.engine.listen(8).unwrap();
        let relay = Relay::start(listener.local_addr(), Forger::new());
        let pair = Pair::connected([a, b], &listener, relay.addr(), b"application data");
        let least =
            std::env::var("BRAID_FORGERIES").map_or(20_000, |text| text.parse().unwrap()) / 2;
        // The kernel drops sent packets that do not fit in a socket's buffer.
        let refused = |side: &Side| {
            let of = side.engine.counters();
            let headers = of.malformed + of.version + of.header_check + of.unknown_qp;
            headers + of.wrong_token + of.forged + of.replayed + of.unprotected
        };
        let (mut rounds, begin) = (0, Instant::now());
        while rounds < 20 || refused(&pair.a) + refused(&pair.b) < least {
            write(&pair, rounds, 64 << 10);
            rounds += 1;
        }
        let took = begin.elapsed();
        // Bytes without a writer have not changed, and both ends still work.
        assert!(pair.b.bytes(64 << 10..MEMORY).iter().all(|byte| *byte == 0));
        let seen = relay.stop().seen;
        let (a, b) = (pair.a.engine.counters(), pair.b.engine.counters());
        println!("{protection:?}: {rounds} rounds in {took:?}, {seen:?}\n a {a:?}\n b {b:?}");
        assert!(seen.forged > 0 && seen.lost > 0, "{seen:?}");
        assert_eq!(seen.same_number, 0, "nonces repeat: {seen:?}");
        assert!(!seen.showed_private_data, "private data in clear");
        assert!(a.forged > 100 && b.forged > 100 && b.replayed > 100);
        assert!(a.unprotected > 0 && b.unprotected > 0);
    }
}
