//! The envelopes of keyed connections, between hosts and network: a host sees nothing but what its
//! keys have opened.

use std::collections::HashSet;

use braid_keys::{
    AllowList, Binding, Cipher, Credentials, Date, Key, Listener, PrivateKey, Protection, Session,
    StaticKeys, Terms,
};
use braid_wire::{Opcode, Packet, QpId, RailId, Token};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Keys last for as few packets as they may.
const KEY_PACKETS_LOG2: u8 = 8;
/// Numbers below the highest that a receiver still takes, about.
const REPLAY_WINDOW: u64 = 16_000;
/// Packets that the stranger keeps, to send them again.
const CAPTURED: usize = 512;

/// Identifies a packet: the sending host, the queue pair, the packet number.
type Name = (usize, usize, u64);
/// The last segment that a queue pair has sent, and the epoch of its key.
type Front = ((Opcode, u32), u64);

pub(crate) struct Envelopes {
    rng: Pcg64Mcg,
    /// By host, then by queue pair.
    ends: [Vec<Session>; 2],
    fronts: [Vec<Option<Front>>; 2],
    /// Changes of keys from one segment of a message to the next.
    within_messages: u64,
    sealed: HashSet<Name>,
    opened: HashSet<Name>,
    /// The highest number that was opened, by sending host, then by queue pair.
    highest: [Vec<u64>; 2],
    captured: Vec<Vec<u8>>,
}

impl Envelopes {
    pub(crate) fn new(seed: u64, qps: usize) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6B65_7973);
        let mut ends = [Vec::new(), Vec::new()];
        for qp in 0..qps {
            let [a, b] = connect(&mut rng, qp);
            ends[0].push(a);
            ends[1].push(b);
        }
        let highest = [vec![0; qps], vec![0; qps]];
        let (sealed, opened) = (HashSet::new(), HashSet::new());
        let (fronts, captured) = ([vec![None; qps], vec![None; qps]], Vec::new());
        Envelopes { rng, ends, fronts, within_messages: 0, sealed, opened, highest, captured }
    }

    /// A packet leaves a host.
    pub(crate) fn seal(&mut self, from: usize, rail: RailId, packet: &[u8]) -> Vec<u8> {
        let qp = qp_of(packet);
        let mut bytes = Vec::new();
        self.ends[from][qp].seal(rail, &mut bytes, |out| out.extend_from_slice(packet));
        let (_, number) = number_of(&bytes).expect("an envelope");
        assert!(self.sealed.insert((from, qp, number)), "a nonce comes twice: {number}");
        self.advance(from, qp, packet);
        if self.captured.len() < CAPTURED {
            self.captured.push(bytes.clone());
        } else {
            let place = self.rng.random_range(0..CAPTURED);
            self.captured[place] = bytes.clone();
        }
        bytes
    }

    fn advance(&mut self, from: usize, qp: usize, packet: &[u8]) {
        let Ok(Packet::Data(header, _)) = Packet::decode(packet) else { return };
        let (message, epoch) = ((header.opcode, header.number), self.ends[from][qp].key_updates());
        let before = self.fronts[from][qp].replace((message, epoch));
        let is_part = u32::from(header.len) < header.message_len;
        let changed = before.is_some_and(|(of, under)| of == message && under < epoch);
        self.within_messages += u64::from(is_part && changed);
    }

    /// Returns a packet of a stranger without the key: an earlier packet of either host, changed or
    /// not, or a packet in clear.
    pub(crate) fn forge(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut forged = self.captured[self.rng.random_range(0..self.captured.len())].clone();
        match self.rng.random_range(0..5) {
            0 => {}
            1 => return packet.to_vec(),
            2 => forged.truncate(self.rng.random_range(1..forged.len())),
            3 => {
                let number = self.rng.random_range(0..2048u64);
                forged[20..28].copy_from_slice(&number.to_be_bytes());
            }
            _ => {
                let bit = self.rng.random_range(0..forged.len() * 8);
                forged[bit / 8] ^= 1 << (bit % 8);
            }
        }
        forged
    }

    /// A datagram arrives at a host. `None`: its keys do not open it. `is_sent`: a host has sent it
    /// as it is.
    pub(crate) fn open(
        &mut self,
        to: usize,
        rail: RailId,
        mut bytes: Vec<u8>,
        is_sent: bool,
    ) -> Option<Vec<u8>> {
        let (qp, number) = number_of(&bytes).filter(|(qp, _)| *qp < self.ends[to].len())?;
        let name = (1 - to, qp, number);
        match self.ends[to][qp].open(rail, number, &mut bytes) {
            Ok(packet) => {
                assert!(self.sealed.contains(&name), "nobody has sent it: {name:?}");
                assert!(self.opened.insert(name), "it is taken twice: {name:?}");
                assert_eq!(qp_of(packet), qp, "it is for another queue pair");
                let highest = &mut self.highest[1 - to][qp];
                *highest = number.max(*highest);
                Some(packet.to_vec())
            }
            Err(refused) => {
                // What many others have overtaken counts as lost, and is sent again.
                let is_late = number + REPLAY_WINDOW <= self.highest[1 - to][qp];
                let is_known = self.opened.contains(&name) || is_late;
                assert!(!is_sent || is_known, "a change of keys has cost a packet: {refused}");
                None
            }
        }
    }

    /// Number of key updates.
    pub(crate) fn key_updates(&self) -> u64 {
        self.ends.iter().flatten().map(Session::key_updates).sum()
    }

    /// Number of key updates between two segments of one message.
    pub(crate) fn key_updates_within_messages(&self) -> u64 {
        self.within_messages
    }
}

/// Both ends of a queue pair's connection, with a pre-shared key or with keys of their own.
fn connect(rng: &mut Pcg64Mcg, qp: usize) -> [Session; 2] {
    let protection = [Protection::Authenticate, Protection::Encrypt][rng.random_range(0..2)];
    let cipher = Cipher::ALL[rng.random_range(0..Cipher::ALL.len())];
    let terms = Terms { protection, ciphers: vec![cipher], key_packets_log2: KEY_PACKETS_LOG2 };
    let [initiator, responder] = match rng.random() {
        true => own_keys([bytes(rng), bytes(rng)].map(PrivateKey::new)),
        false => {
            let shared = Credentials::from(Key::new(bytes(rng)));
            [shared.clone(), shared]
        }
    };
    let binding = Binding { nonce: 1, cookie: 2 };
    let listener = Listener { binding, key: responder.key_id(binding), today: Date::FIRST };
    let (mut asking, _) = initiator.initiate(listener, bytes(rng), terms.clone(), b"");
    let asked = responder.read(binding, Date::FIRST, bytes(rng), asking.message());
    let asked = asked.expect("it has the key");
    let agreed = asked.settle(&terms).expect("both want the same");
    let (message, theirs) = asked.answer(agreed, b"");
    let ours = asking.read(&message).expect("it has the key").secrets;
    let to = (QpId::new(qp as u32), Token(7));
    [Session::new(ours, agreed, to), Session::new(theirs, agreed, to)]
}

/// Each allows the other.
fn own_keys(private: [PrivateKey; 2]) -> [Credentials; 2] {
    let lines = private.each_ref().map(|key| key.public().to_string());
    let allowed = AllowList::parse(&lines.join("\n")).expect("two public keys");
    private.map(|private| StaticKeys::new(private, allowed.clone()).into())
}

fn bytes(rng: &mut Pcg64Mcg) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Returns the queue pair that an envelope names, and its packet number.
fn number_of(bytes: &[u8]) -> Option<(usize, u64)> {
    match Packet::decode(bytes) {
        Ok(Packet::Sealed(header)) => Some((header.qp.get() as usize, header.number)),
        _ => None,
    }
}

/// Queue pairs are numbered in the low 8 bits.
fn qp_of(packet: &[u8]) -> usize {
    let qp = match Packet::decode(packet) {
        Ok(Packet::Data(header, _)) => header.qp,
        Ok(Packet::Ack(ack)) => ack.qp,
        Ok(Packet::Credit(credit)) => credit.qp,
        Ok(Packet::Control(control)) => control.qp,
        Ok(Packet::Probe(probe)) => probe.qp,
        other => panic!("nobody sends {other:?}"),
    };
    qp.get() as usize & 0xFF
}
