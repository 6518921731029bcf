//! Packets that the network has held back while 2^24 others of their stream have passed. The others
//! do not pass here: the PSN of an old packet is rewritten, which is all that they would change.

use braid_wire::{Ack, DataHeader, Packet, Stream};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The widest window.
const WINDOW: i64 = 4096;
/// Packets that have passed since one that comes again. The receiver's floor of stamps is three
/// windows behind at most, and its ePSN one window behind what was sent; of 2^24 packets nobody
/// would notice the difference.
const BEHIND: i64 = 4 * WINDOW;
/// Share of packets that are held back.
const HELD: f64 = 1.0 / 64.0;
/// Share of packets with which an old one comes.
const COMES: f64 = 1.0 / 16.0;

/// Packets of one direction that come again later.
pub(crate) struct Wraps {
    rng: Pcg64Mcg,
    /// By sending host and stream: the highest PSN so far, as if it did not wrap, and packets with
    /// theirs.
    sent: [[Option<i64>; 2]; 2],
    held: Vec<(usize, Stream, i64, Vec<u8>)>,
}

impl Wraps {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7772_6170);
        Wraps { rng, sent: Default::default(), held: Vec::new() }
    }

    /// A packet leaves a host. Returns an old one that arrives with it.
    pub(crate) fn pass(&mut self, from: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let (stream, psn) = match Packet::decode(bytes) {
            Ok(Packet::Data(header, _)) => {
                let stream = stream_of(&header);
                let front = &mut self.sent[from][stream as usize];
                let psn = unwrapped(header.psn, *front);
                *front = Some(front.map_or(psn, |front| front.max(psn)));
                (stream, psn)
            }
            Ok(Packet::Ack(ack)) if ack.nak.is_none() => {
                (ack.stream, unwrapped(ack.cumulative, self.sent[1 - from][ack.stream as usize]))
            }
            _ => return None,
        };
        if self.rng.random_bool(HELD) {
            self.held.push((from, stream, psn, bytes.to_vec()));
        }
        if !self.rng.random_bool(COMES) || self.held.is_empty() {
            return None;
        }
        let any = self.rng.random_range(0..self.held.len());
        let (sender, stream, psn, old) = self.held[any].clone();
        (sender == from).then_some(())?;
        self.again(from, stream, psn, &old)
    }

    fn again(&mut self, from: usize, stream: Stream, psn: i64, old: &[u8]) -> Option<Vec<u8>> {
        let is_old = |front: Option<i64>| front.filter(|front| psn < front - BEHIND);
        let mut bytes = Vec::new();
        match Packet::decode(old).ok()? {
            Packet::Data(mut header, payload) => {
                let front = is_old(self.sent[from][stream as usize])?;
                header.psn = wire(front + self.rng.random_range(-64..WINDOW));
                header.encode(&mut bytes);
                bytes.extend_from_slice(payload);
            }
            Packet::Ack(ack) => {
                let front = is_old(self.sent[1 - from][stream as usize])?;
                let cumulative = wire(front + 1 - self.rng.random_range(0..64));
                let beyond = ack.highest.wrapping_sub(ack.cumulative);
                let highest = cumulative.wrapping_add(beyond) & 0xFF_FFFF;
                Ack { cumulative, highest, ..ack }.encode(&mut bytes);
            }
            _ => return None,
        }
        Some(bytes)
    }
}

fn stream_of(header: &DataHeader) -> Stream {
    if header.opcode.is_response() { Stream::Responses } else { Stream::Requests }
}

/// The PSN nearest to `front`.
fn unwrapped(psn: u32, front: Option<i64>) -> i64 {
    let Some(front) = front else { return psn.into() };
    let ahead = (psn.wrapping_sub(front as u32) << 8) as i32 >> 8;
    front + i64::from(ahead)
}

fn wire(psn: i64) -> u32 {
    psn as u32 & 0xFF_FFFF
}
