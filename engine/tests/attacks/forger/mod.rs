//! Passes on most packets between two ends, records them, and sends forgeries of them.

use std::collections::HashSet;

use braid_wire::{Control, ControlKind, FinalAck, Packet, QpId, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::relay::{Face, Visitor};

/// The number of forgeries of each packet that passes.
const FORGERIES: usize = 16;
/// The share of protected packets that does not pass.
const LOSS: f64 = 0.02;

/// The forger's counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) passed: u64,
    pub(crate) lost: u64,
    pub(crate) forged: u64,
    /// Packets with the number of another one of their connection's direction.
    pub(crate) same_number: u64,
    pub(crate) showed_private_data: bool,
}

/// A relay that passes on, loses and forges packets.
pub(crate) struct Forger {
    pub(crate) seen: Seen,
    /// The numbers of the packets in each direction of a connection.
    numbers: HashSet<(QpId, Token, u64)>,
    rng: Pcg64Mcg,
}

impl Forger {
    pub(crate) fn new() -> Self {
        let rng = Pcg64Mcg::seed_from_u64(7);
        Forger { seen: Seen::default(), numbers: HashSet::new(), rng }
    }
}

impl Visitor for Forger {
    /// Passes a packet on, with forgeries after it, some of them back to its source.
    fn pass(&mut self, packet: &[u8], near: &Face, far: &Face) {
        let Forger { seen, numbers, rng } = self;
        if let Ok(Packet::Sealed(header)) = Packet::decode(packet) {
            seen.same_number +=
                u64::from(!numbers.insert((header.qp, header.token, header.number)));
            if rng.random_bool(LOSS) {
                seen.lost += 1;
                return;
            }
        }
        seen.showed_private_data |= packet.windows(16).any(|bytes| bytes == b"application data");
        seen.passed += u64::from(far.send(packet));
        for _ in 0..FORGERIES {
            let clear = in_clear(packet).filter(|_| rng.random_bool(0.1));
            let forged = clear.unwrap_or_else(|| forge(packet, rng));
            let to = if rng.random_bool(0.1) { near } else { far };
            seen.forged += u64::from(to.send(&forged));
        }
    }
}

/// A forgery: unchanged, cut, longer, with a bit changed anywhere, or with another number.
fn forge(packet: &[u8], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut forged = packet.to_vec();
    match rng.random_range(0..6) {
        0 => {}
        1 => forged.truncate(rng.random_range(0..packet.len())),
        2 => forged.extend_from_slice(&[0; 5]),
        3 if packet.len() > 28 => {
            forged[20..28].copy_from_slice(&rng.random_range(0..1_000_000u64).to_be_bytes());
        }
        4 => {
            // The header, which contains every field.
            let at = rng.random_range(0..packet.len().min(28));
            forged[at] ^= 1 << rng.random_range(0..8);
        }
        _ => {
            let at = rng.random_range(0..packet.len());
            forged[at] ^= 1 << rng.random_range(0..8);
        }
    }
    forged
}

/// An unencrypted DISCONNECT for the queue pair of an encrypted packet, with its token.
fn in_clear(packet: &[u8]) -> Option<Vec<u8>> {
    let Ok(Packet::Sealed(header)) = Packet::decode(packet) else { return None };
    let kind = ControlKind::Disconnect(FinalAck::default());
    let (qp, token) = (header.qp, header.token);
    let mut bytes = Vec::new();
    Control { kind, qp, from: QpId::new(2), token, stamp: 0 }.encode(&mut bytes);
    Some(bytes)
}
