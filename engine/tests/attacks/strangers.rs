//! Strangers at a keyed connection, who see its packets and are not on its path. They send from an
//! address of their own and in the name of the peer. They invent encrypted packets, and change and
//! repeat those that they have seen.
//!
//! `BRAID_STRANGERS=2000000` continues until that many were refused. The default is 20,000.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::pair::{MEMORY, Pair, Side, local};
use crate::relay::{Face, Relay, Visitor};
use braid::{EngineConfig, EngineCounters, Key, Protection, QpCounters, QpState, Security, wr};
use braid_wire::{Packet, QpId, SealedHeader, Token};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes that are written for the strangers to see.
const SEEN: usize = 64 << 10;
/// Time after which the queue pairs are silent, except for PINGs.
const QUIET: Duration = Duration::from_millis(50);

/// The captured encrypted packets, by the token of their destination.
type Captured = Arc<Mutex<HashMap<Token, Vec<Vec<u8>>>>>;

/// Records all packets and changes none.
struct Tap(Captured);

impl Visitor for Tap {
    fn pass(&mut self, packet: &[u8], _: &Face, far: &Face) {
        far.send(packet);
        if let Ok(Packet::Sealed(header)) = Packet::decode(packet) {
            self.0.lock().unwrap().entry(header.token).or_default().push(packet.to_vec());
        }
    }
}

/// A forged packet. Either its keys do not match, or its number has been received before.
fn forge(captured: &[Vec<u8>], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let seen = &captured[rng.random_range(0..captured.len())];
    let mut forged = seen.clone();
    match rng.random_range(0..5) {
        0 => {}
        1 => {
            let at = rng.random_range(0..forged.len());
            forged[at] ^= 1 << rng.random_range(0..8);
        }
        // The number of a packet that was not sent, with the ciphertext of another.
        2 => forged[20..28].copy_from_slice(&rng.random_range(0..1_u64 << 20).to_be_bytes()),
        3 => rng.fill_bytes(&mut forged[28..]),
        _ => {
            let (qp, token) = (QpId::new(rng.random()), Token(rng.random()));
            forged.clear();
            SealedHeader { qp, token, number: rng.random() }.encode(&mut forged);
            forged.resize(seen.len(), 0);
            rng.fill_bytes(&mut forged[28..]);
        }
    }
    forged
}

fn refused(of: &EngineCounters) -> u64 {
    let headers = of.malformed + of.version + of.unknown_qp + of.wrong_token + of.wrong_source;
    headers + of.forged + of.replayed
}

/// The state of a connection at this side.
fn state(side: &Side) -> (QpCounters, QpState, Vec<u8>) {
    (side.qp.counters(), side.qp.state(), side.bytes(0..MEMORY))
}

fn write(pair: &Pair, round: u8) {
    pair.a.memory.write_at(0, &[round; SEEN]).unwrap();
    let piece = pair.a.memory.slice(..SEEN).unwrap();
    pair.a.qp.post_send(wr::write(round.into(), [piece], pair.remote.at(0))).unwrap();
    pair.successes(&pair.a, 1);
    assert!(pair.b.bytes(0..SEEN).iter().all(|byte| *byte == round));
}

#[test]
fn strangers_get_nothing_done() {
    let least = std::env::var("BRAID_STRANGERS").map_or(20_000, |text| text.parse().unwrap()) / 2;
    for protection in [Protection::Authenticate, Protection::Encrypt] {
        let mut security = Security::new(Key::new([7; 32]));
        security.protection = protection;
        let config = EngineConfig { security: Some(security), mtu: Some(1024), ..local() };
        let [a, b] = [(); 2].map(|()| Side::new(&config, |_| {}));
        let listener = b.engine.listen(8).unwrap();
        let captured = Captured::default();
        let relay = Relay::start(listener.local_addr(), Tap(captured.clone()));
        let pair = Pair::connected([a, b], &listener, relay.addr(), &[]);
        write(&pair, 1);
        pair.quiet(QUIET);
        let before = [&pair.a, &pair.b].map(state);
        let seen: Vec<Vec<Vec<u8>>> = captured.lock().unwrap().values().cloned().collect();
        assert_eq!(seen.len(), 2, "of both directions");
        // The second stranger has the address of the peer.
        let strangers = ["127.0.0.2:0", "127.0.0.1:0"].map(|addr| UdpSocket::bind(addr).unwrap());
        let targets = [&pair.a, &pair.b].map(|side| side.engine.local_addr());
        let (mut rng, begin) = (Pcg64Mcg::seed_from_u64(11), Instant::now());
        let counters = || [&pair.a, &pair.b].map(|side| side.engine.counters());
        while counters().iter().map(refused).sum::<u64>() < least {
            for _ in 0..256 {
                send(&strangers, &targets, &seen, &mut rng);
            }
        }
        pair.quiet(QUIET);
        let [a, b] = counters();
        println!("{protection:?}: {least} refused in {:?}\n a {a:?}\n b {b:?}", begin.elapsed());
        assert!([&pair.a, &pair.b].map(state) == before, "they have changed something");
        for (side, of) in [(&pair.a, a), (&pair.b, b)] {
            assert!(of.wrong_source > 100 && of.forged > 100 && of.replayed > 100, "{of:?}");
            assert!(of.unknown_qp + of.wrong_token > 100, "{of:?}");
            assert_eq!(side.engine.poll_event(), None);
        }
        write(&pair, 2);
        relay.stop();
    }
}

/// One stranger sends to one of the ends a packet that was meant for it or for the other.
fn send(
    strangers: &[UdpSocket; 2],
    targets: &[SocketAddr; 2],
    seen: &[Vec<Vec<u8>>],
    rng: &mut Pcg64Mcg,
) {
    let forged = forge(&seen[rng.random_range(0..2)], rng);
    let stranger = &strangers[rng.random_range(0..2)];
    // A full socket buffer loses the datagram, as the network would.
    let _ = stranger.send_to(&forged, targets[rng.random_range(0..2)]);
}
