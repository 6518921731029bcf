//! Packets in parts.
//!
//! Over UDP, a packet is sent in parts if it was cut when the path carried more than it does now.
//! Over verbs, each part is a single packet of the NIC. A UC queue pair drops a message if one of
//! its packets is lost, and Soft-RoCE also drops the next message. If packets are lost or overtake
//! each other on one NIC queue pair, parts of one packet each lose no more than the lost packets.

use braid_wire::{Frame, MAX_DATA_HEADER_LEN, Part};

/// The number of packets of one queue pair or NIC queue pair that may be incomplete at a time.
/// Older ones are dropped.
pub(crate) const OPEN: usize = 8;
/// The largest number of parts of a packet, limited by the bits of `seen`.
pub(crate) const MAX_PARTS: usize = 64;
/// Bytes of the longest possible packet. A payload's length has 16 bits.
const LONGEST: usize = MAX_DATA_HEADER_LEN + u16::MAX as usize;

/// The identity of a part and of its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which {
    serial: u32,
    index: u8,
    count: u8,
}

impl From<&Frame> for Which {
    fn from(frame: &Frame) -> Self {
        Which { serial: frame.serial, index: frame.index, count: frame.count }
    }
}

impl From<&Part> for Which {
    fn from(part: &Part) -> Self {
        Which { serial: part.serial, index: part.index, count: part.count }
    }
}

/// The incomplete packets of a queue pair or NIC queue pair.
pub(crate) struct Parts {
    open: Box<[IncompletePacket]>,
    /// Bytes of the longest packet.
    longest: usize,
}

/// Invariant: `bytes` has room for `count` parts, and `len` of them belong to the packet once the
/// last part is `seen`. Seen bytes never change: a repeated part has no effect.
#[derive(Default)]
struct IncompletePacket {
    serial: u32,
    /// A bit for each part that has arrived. 0: the place is free.
    seen: u64,
    count: u8,
    bytes: Vec<u8>,
    len: usize,
}

impl Default for Parts {
    fn default() -> Self {
        Parts::new(OPEN, LONGEST)
    }
}

impl Parts {
    /// Creates places for `open` packets of at most `longest` bytes.
    pub(crate) fn new(open: usize, longest: usize) -> Self {
        Parts { open: (0..open).map(|_| IncompletePacket::default()).collect(), longest }
    }

    /// Whether no packet is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.iter().all(|packet| packet.seen == 0)
    }

    /// The number of bytes held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.open.iter().map(|packet| packet.bytes.capacity()).sum()
    }

    /// Takes a part. All parts of a packet but the last are `part_len` long. Returns the packet if
    /// the part completes it. A part whose length does not fit its position or the packet's other
    /// parts is ignored.
    pub(crate) fn take(
        &mut self,
        which: impl Into<Which>,
        part: &[u8],
        part_len: usize,
    ) -> Option<&[u8]> {
        let which = which.into();
        let (index, count) = (usize::from(which.index), usize::from(which.count));
        if !fits(index, count, part.len(), part_len, self.longest) {
            return None;
        }
        let place = which.serial as usize % self.open.len();
        let packet = &mut self.open[place];
        if packet.seen == 0 || packet.serial != which.serial || packet.count != which.count {
            packet.begin(which, part_len);
        }
        packet.add(index, part, part_len)
    }
}

/// Whether a packet of `count` parts and up to `longest` bytes can have a part of `len` bytes at
/// `index`. All parts but the last are full.
fn fits(index: usize, count: usize, len: usize, part_len: usize, longest: usize) -> bool {
    let is_last = index + 1 == count;
    let full = if is_last { 1..=part_len } else { part_len..=part_len };
    index < count && count <= MAX_PARTS && full.contains(&len) && (count - 1) * part_len < longest
}

impl IncompletePacket {
    fn begin(&mut self, which: Which, part_len: usize) {
        (self.serial, self.seen, self.count, self.len) = (which.serial, 0, which.count, 0);
        self.bytes.resize(usize::from(which.count) * part_len, 0);
    }

    fn add(&mut self, index: usize, part: &[u8], part_len: usize) -> Option<&[u8]> {
        let bit = 1 << index;
        if self.seen & bit != 0 {
            return None;
        }
        self.seen |= bit;
        let at = index * part_len;
        self.bytes[at..at + part.len()].copy_from_slice(part);
        if index + 1 == usize::from(self.count) {
            self.len = at + part.len();
        }
        let is_whole = self.seen.count_ones() == u32::from(self.count);
        is_whole.then(|| {
            self.seen = 0;
            &self.bytes[..self.len]
        })
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::PathId;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const LEN: usize = 4;

    fn take(parts: &mut Parts, serial: u32, index: u8, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = Frame::packet(PathId::new(0), None).part(serial, index, 3);
        parts.take(&frame, bytes, LEN).map(<[u8]>::to_vec)
    }

    #[test]
    fn parts_make_a_packet_in_whatever_order() {
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let mut parts = Parts::default();
            let mut whole = None;
            for (step, index) in order.into_iter().enumerate() {
                let bytes: &[u8] = [&b"abcd"[..], b"efgh", b"ij"][usize::from(index)];
                whole = take(&mut parts, 7, index, bytes);
                assert_eq!(whole.is_some(), step == 2, "{order:?}");
            }
            assert_eq!(whole.as_deref(), Some(&b"abcdefghij"[..]), "{order:?}");
        }
    }

    #[test]
    fn missing_parts_delay_no_other_packet() {
        let mut parts = Parts::default();
        assert_eq!(take(&mut parts, 1, 0, b"abcd"), None);
        for (index, bytes) in [(0, b"ABCD"), (1, b"EFGH")] {
            assert_eq!(take(&mut parts, 2, index, bytes), None);
        }
        assert_eq!(take(&mut parts, 2, 2, b"I").as_deref(), Some(&b"ABCDEFGHI"[..]));
        assert_eq!(take(&mut parts, 2, 2, b"I"), None, "it was handed out");
        // A later packet has taken its place, and no bytes of the two are mixed.
        assert_eq!(take(&mut parts, 1 + OPEN as u32, 1, b"mnop"), None);
        assert_eq!(take(&mut parts, 1 + OPEN as u32, 2, b"q"), None);
        assert_eq!(take(&mut parts, 1, 1, b"efgh"), None);
    }

    #[test]
    fn parts_of_a_wrong_length_are_refused() {
        let mut parts = Parts::default();
        assert_eq!(take(&mut parts, 1, 0, b"abc"), None);
        assert_eq!(take(&mut parts, 1, 2, b"abcde"), None);
        let huge = Frame::packet(PathId::new(0), None).part(1, 200, 255);
        assert_eq!(parts.take(&huge, b"a", LEN), None);
        assert_eq!(parts.open[1].seen, 0);
    }

    #[test]
    fn a_part_that_comes_again_changes_nothing() {
        let mut parts = Parts::default();
        for bytes in [&b"ij"[..], b"IJKL", b"I"] {
            assert_eq!(take(&mut parts, 7, 2, bytes), None);
        }
        assert_eq!(take(&mut parts, 7, 0, b"abcd"), None);
        assert_eq!(take(&mut parts, 7, 0, b"ABCD"), None);
        assert_eq!(take(&mut parts, 7, 1, b"efgh").as_deref(), Some(&b"abcdefghij"[..]));
    }

    #[test]
    fn no_packet_is_longer_than_a_segment_can_be() {
        let mut parts = Parts::default();
        let part = vec![1; 4080];
        for (count, is_taken) in [(16, true), (17, true), (18, false), (64, false)] {
            let frame = Frame::packet(PathId::new(0), None).part(count.into(), 0, count);
            assert_eq!(parts.take(&frame, &part, part.len()), None);
            let packet = &parts.open[usize::from(count) % OPEN];
            assert_eq!(packet.seen != 0 && packet.serial == count.into(), is_taken, "{count}");
        }
    }

    type Pieces = Vec<Option<Vec<u8>>>;

    /// A simple model of [`Parts`].
    #[derive(Default)]
    struct Model {
        open: [Option<(u32, Pieces)>; OPEN],
    }

    impl Model {
        fn take(&mut self, frame: &Frame, part: &[u8]) -> Option<Vec<u8>> {
            let (index, count) = (usize::from(frame.index), usize::from(frame.count));
            let is_full = part.len() == LEN;
            let is_last = index + 1 == count && (1..=LEN).contains(&part.len());
            if index >= count || count > MAX_PARTS || !(is_full || is_last) {
                return None;
            }
            let place = &mut self.open[frame.serial as usize % OPEN];
            if !place.as_ref().is_some_and(|(s, all)| *s == frame.serial && all.len() == count) {
                *place = Some((frame.serial, vec![None; count]));
            }
            let (_, all) = place.as_mut()?;
            all[index].get_or_insert_with(|| part.to_vec());
            let whole: Vec<u8> = all.iter().cloned().collect::<Option<Vec<_>>>()?.concat();
            *place = None;
            Some(whole)
        }
    }

    #[test]
    fn frames_of_a_peer_that_lies_make_no_packet_but_of_what_came_first() {
        for seed in 0..64 {
            let mut random = rand_pcg::Pcg32::seed_from_u64(seed);
            let (mut parts, mut model, mut whole) = (Parts::default(), Model::default(), 0);
            for step in 0..4_000 {
                let mut below = |end: u32| random.random_range(0..end);
                let serial = [below(4), below(64), 0xFF_FFFF - below(4)][below(3) as usize];
                let count = [1 + below(3), below(9), 60 + below(196)][below(3) as usize] as u8;
                let index = [below(3), below(256)][below(2) as usize] as u8;
                let len = [LEN, LEN, below(LEN as u32 + 3) as usize][below(3) as usize];
                let part: Vec<u8> = (0..len).map(|_| below(256) as u8).collect();
                let frame = Frame::packet(PathId::new(0), None).part(serial, index, count);
                let got = parts.take(&frame, &part, LEN).map(<[u8]>::to_vec);
                assert_eq!(got, model.take(&frame, &part), "seed {seed}, step {step}, {frame:?}");
                whole += u32::from(got.is_some());
            }
            assert!(whole > 30, "seed {seed}: only {whole} packets came about");
        }
    }
}
