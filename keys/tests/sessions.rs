//! Two ends of a keyed connection over a network that loses, repeats, delays and changes packets,
//! in virtual time.
//!
//! Every scenario is a function of its seed. A model of the sent packets checks the received ones.

use std::collections::HashSet;

use braid_keys::{
    Agreed, AllowList, Binding, Cipher, Credentials, Date, Key, Listener, PrivateKey, Protection,
    Refused, Session, StaticKeys, Terms,
};
use braid_wire::{Packet, QpId, RailId, Token};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const RAIL: RailId = RailId::new(1);
const TO: (QpId, Token) = (QpId::new(0x123), Token(0xA1B2_C3D4));

/// Creates the credentials of two hosts that allow each other.
fn static_keys(private: [PrivateKey; 2]) -> [Credentials; 2] {
    let public = private.each_ref().map(PrivateKey::public);
    let text = format!("{}\n{}\n", public[0], public[1]);
    let allowed = AllowList::parse(&text).unwrap();
    private.map(|private| StaticKeys::new(private, allowed.clone()).into())
}

/// Creates both ends of a connection, with a pre-shared key for even seeds.
fn pair(seed: u64, terms: &Terms) -> [Session; 2] {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut bytes = || {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let binding = Binding { nonce: 5, cookie: 6 };
    let [a, b] = match seed % 2 {
        0 => {
            let shared = Credentials::from(Key::new(bytes()));
            [shared.clone(), shared]
        }
        _ => static_keys([bytes(), bytes()].map(PrivateKey::new)),
    };
    let listener = Listener { binding, key: b.key_id(binding), today: Date::FIRST };
    let (mut asking, denied) = a.initiate(listener, bytes(), terms.clone(), b"");
    assert_eq!(denied, None);
    let asked = b.read(binding, Date::FIRST, bytes(), asking.message()).unwrap();
    let agreed = asked.settle(terms).unwrap();
    let (message, theirs) = asked.answer(agreed, b"");
    let answer = asking.read(&message).unwrap();
    assert_eq!(answer.agreed, agreed);
    [Session::new(answer.secrets, agreed, TO), Session::new(theirs, agreed, TO)]
}

fn all_terms() -> impl Iterator<Item = Terms> {
    let both = [Protection::Authenticate, Protection::Encrypt];
    let each =
        both.into_iter().flat_map(|protection| Cipher::ALL.map(|cipher| (protection, cipher)));
    each.map(|(protection, cipher)| Terms {
        protection,
        ciphers: vec![cipher],
        key_packets_log2: 8,
    })
}

fn seal(session: &mut Session, inner: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    session.seal(RAIL, &mut packet, |out| out.extend_from_slice(inner));
    assert_eq!(packet.len(), inner.len() + Session::OVERHEAD);
    packet
}

fn number_of(packet: &[u8]) -> u64 {
    match Packet::decode(packet) {
        Ok(Packet::Sealed(header)) => {
            assert_eq!((header.qp, header.token), TO);
            header.number
        }
        other => panic!("{other:?}"),
    }
}

/// Opens a packet as a receiver does: anything but an envelope is dropped before decryption.
fn open(session: &mut Session, mut packet: Vec<u8>) -> Option<Result<Vec<u8>, Refused>> {
    let Ok(Packet::Sealed(header)) = Packet::decode(&packet) else { return None };
    Some(session.open(RAIL, header.number, &mut packet).map(<[u8]>::to_vec))
}

#[test]
fn what_is_sealed_opens_once_and_at_the_other_end_only() {
    for terms in all_terms() {
        let [mut a, mut b] = pair(1, &terms);
        for len in [0, 1, 60, 1200, 16_444] {
            let inner: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let packet = seal(&mut a, &inner);
            let encrypted = a.agreed().protection == Protection::Encrypt;
            let shows = len >= 60 && packet.windows(60).any(|bytes| bytes == &inner[..60]);
            assert_eq!(shows, len >= 60 && !encrypted);
            assert_eq!(open(&mut a, packet.clone()), Some(Err(Refused::Forged)), "reflected");
            assert_eq!(open(&mut b, packet.clone()), Some(Ok(inner)));
            assert_eq!(open(&mut b, packet), Some(Err(Refused::Repeated)));
        }
    }
}

#[test]
fn a_payload_is_encrypted_from_where_it_is() {
    for terms in all_terms().filter(|terms| terms.protection == Protection::Encrypt) {
        let [mut a, mut b] = pair(7, &terms);
        for (head, len) in [(0, 0), (0, 100), (1, 1), (30, 15), (33, 5000), (16, 16_384), (48, 0)] {
            let inner: Vec<u8> = (0..head + len).map(|at| (at * 7) as u8).collect();
            let (first, payload) = inner.split_at(head);
            let mut packet = Vec::new();
            a.begin(&mut packet);
            packet.extend_from_slice(first);
            packet.resize(inner.len() + Session::OVERHEAD, 0xAA);
            a.seal_from(RAIL, &mut packet, payload);
            assert_eq!(open(&mut b, packet), Some(Ok(inner)), "{head} and {len} bytes");
        }
        // Both kinds of sealing count packets together.
        let packet = seal(&mut a, b"then as usual");
        assert_eq!(open(&mut b, packet), Some(Ok(b"then as usual".to_vec())));
    }
}

#[test]
fn a_packet_opens_on_the_rail_that_it_was_sealed_for_and_on_no_other() {
    for terms in all_terms() {
        let [mut a, mut b] = pair(6, &terms);
        let packet = seal(&mut a, b"by rail 1");
        let mut by = |rail| {
            let mut packet = packet.clone();
            b.open(RailId::new(rail), 0, &mut packet).map(<[u8]>::to_vec)
        };
        for rail in [0, 2, 7] {
            assert_eq!(by(rail), Err(Refused::Forged), "rail {rail}");
        }
        assert_eq!(by(1), Ok(b"by rail 1".to_vec()), "nothing was lost by those");
    }
}

#[test]
fn every_bit_counts_and_every_byte() {
    for terms in all_terms() {
        let [mut a, mut b] = pair(2, &terms);
        seal(&mut a, b"lost");
        let packet = seal(&mut a, b"what is said in the packet");
        for bit in 0..packet.len() * 8 {
            let mut edited = packet.clone();
            edited[bit / 8] ^= 1 << (bit % 8);
            let opened = open(&mut b, edited);
            assert!(!matches!(opened, Some(Ok(_))), "bit {bit}: {opened:?}");
        }
        for len in 0..packet.len() {
            assert!(!matches!(open(&mut b, packet[..len].to_vec()), Some(Ok(_))), "cut to {len}");
        }
        let mut longer = packet.clone();
        longer.push(0);
        assert_eq!(open(&mut b, longer), Some(Err(Refused::Forged)));
        assert_eq!(open(&mut b, packet), Some(Ok(b"what is said in the packet".to_vec())));
    }
}

#[test]
fn another_connection_of_the_same_key_opens_nothing() {
    let terms = Terms::default();
    let [mut a, _] = pair(3, &terms);
    let [_, mut other] = pair(4, &terms);
    assert_eq!(open(&mut other, seal(&mut a, b"x")), Some(Err(Refused::Forged)));
}

#[test]
fn a_key_lasts_for_as_many_packets_as_agreed() {
    let terms = Terms { key_packets_log2: 9, ..Terms::default() };
    let [mut a, mut b] = pair(5, &terms);
    for number in 0..5000 {
        let packet = seal(&mut a, b"x");
        assert_eq!(number_of(&packet), number);
        assert_eq!(a.key_updates(), number >> 9);
        // Three of four packets are lost.
        if number % 4 == 0 {
            assert_eq!(open(&mut b, packet), Some(Ok(b"x".to_vec())), "number {number}");
        }
    }
    assert_eq!(b.key_updates(), 0, "the other direction has its own");
}

/// 4096 segments are a window: with keys of 2^8 packets, a lost window spans 16 keys.
#[test]
fn a_burst_of_loss_longer_than_several_keys_ends_nothing() {
    for (key_packets_log2, lost) in [(8, 4096), (8, 32_000), (11, 4096), (12, 10_000)] {
        let [mut a, mut b] = pair(6, &Terms { key_packets_log2, ..Terms::default() });
        let early = seal(&mut a, b"early");
        for round in 0..3 {
            (0..lost).for_each(|_| drop(seal(&mut a, b"lost")));
            let opened = open(&mut b, seal(&mut a, b"next"));
            assert_eq!(opened, Some(Ok(b"next".to_vec())), "2^{key_packets_log2}, round {round}");
        }
        let late: Vec<_> = (0..4096).map(|_| seal(&mut a, b"late")).collect();
        assert_eq!(open(&mut b, seal(&mut a, b"next")), Some(Ok(b"next".to_vec())));
        for packet in late {
            assert_eq!(open(&mut b, packet), Some(Ok(b"late".to_vec())), "2^{key_packets_log2}");
        }
        assert_eq!(open(&mut b, early), Some(Err(Refused::Repeated)), "before the window");
    }
}

/// The packets in flight and the opened ones.
struct Network {
    rng: Pcg64Mcg,
    on_the_way: Vec<(u64, Vec<u8>)>,
    captured: Vec<Vec<u8>>,
}

impl Network {
    fn send(&mut self, now: u64, packet: Vec<u8>) {
        if self.rng.random_bool(0.2) {
            self.captured.push(packet.clone());
        }
        if self.rng.random_bool(0.1) {
            return;
        }
        let copies = if self.rng.random_bool(0.05) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.rng.random_bool(0.3) { self.rng.random_range(0..250) } else { 0 };
            self.on_the_way.push((now + late, packet.clone()));
        }
        if self.rng.random_bool(0.3) {
            let forged = self.forge();
            self.on_the_way.push((now, forged));
        }
    }

    /// Returns an old packet, unchanged, edited or truncated.
    fn forge(&mut self) -> Vec<u8> {
        let Some(at) = self.captured.len().checked_sub(1) else { return vec![0xED; 60] };
        let mut packet = self.captured[self.rng.random_range(0..=at)].clone();
        match self.rng.random_range(0..4) {
            0 => {}
            1 => packet.truncate(self.rng.random_range(0..packet.len())),
            2 => packet[20..28].copy_from_slice(&self.rng.random::<u64>().to_be_bytes()),
            _ => {
                let at = self.rng.random_range(0..packet.len());
                packet[at] ^= 1 << self.rng.random_range(0..8);
            }
        }
        packet
    }

    fn arrived(&mut self, now: u64) -> Vec<Vec<u8>> {
        let (due, later) = self.on_the_way.drain(..).partition(|(at, _)| *at <= now);
        self.on_the_way = later;
        let due: Vec<(u64, Vec<u8>)> = due;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// Runs both directions at once. Keys change every 256 packets, while packets of the previous key
/// are still in flight.
fn scenario(seed: u64, terms: &Terms) {
    let mut ends = pair(seed, terms);
    let network = |salt| Network {
        rng: Pcg64Mcg::seed_from_u64(seed ^ salt),
        on_the_way: Vec::new(),
        captured: Vec::new(),
    };
    let mut networks = [network(0), network(1 << 40)];
    let mut numbers = [HashSet::new(), HashSet::new()];
    let mut opened = [HashSet::new(), HashSet::new()];
    let (mut sent, mut taken) = (0u64, 0u64);
    for now in 0..3000 {
        for from in 0..2 {
            let inner = format!("{seed} {now} {from}");
            let packet = seal(&mut ends[from], inner.as_bytes());
            assert!(numbers[from].insert(number_of(&packet)), "seed {seed}: a nonce comes twice");
            networks[from].send(now, packet);
            sent += 1;
            for packet in networks[from].arrived(now) {
                let Some(Ok(inner)) = open(&mut ends[1 - from], packet) else { continue };
                let inner = String::from_utf8(inner).expect("what was sent is text");
                let mut words = inner.split(' ').map(|word| word.parse::<u64>().unwrap());
                assert_eq!(words.next(), Some(seed), "of another connection");
                assert!(words.next().is_some_and(|at| at <= now), "not sent yet");
                assert_eq!(words.next(), Some(from as u64), "seed {seed}: reflected");
                assert!(opened[from].insert(inner), "seed {seed}: taken twice");
                taken += 1;
            }
        }
    }
    assert!(ends.iter().all(|end| end.key_updates() == 2999 >> 8), "seed {seed}");
    // A tenth is lost, and some packets are still in flight: key updates lose nothing more.
    assert!(taken * 100 > sent * 85, "seed {seed}: {taken} of {sent} have come through");
}

#[test]
fn a_bad_network_repeats_changes_and_reorders_in_vain() {
    for (seed, terms) in all_terms().enumerate() {
        for round in 0..4 {
            scenario(seed as u64 * 100 + round, &terms);
        }
    }
}

#[test]
fn debug_shows_no_key() {
    let [a, _] = pair(9, &Terms::default());
    let text = format!("{a:?}");
    assert!(text.contains("Encrypt") && text.len() < 300, "{text}");
    let _: Agreed = a.agreed();
}
