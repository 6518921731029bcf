//! A host's memory: a piece for each queue pair, and what has to be in it.

use braid_transport::{Access, AtomicOp, Memory, PdId, Regions, RemoteAddr, SgList, Sge};

use crate::kit;

const BASE: u64 = 1 << 20;
/// Messages of a connection and direction.
pub(crate) const MESSAGES: usize = 3;
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 1024;
const AREA: usize = MESSAGES * LONGEST;
const PIECE: usize = 3 * AREA;

/// The use of a part of a queue pair's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// SENDs and WRITEs take their bytes from here.
    Source,
    /// SENDs of the peer land here.
    Received,
    /// WRITEs of the peer land here.
    Written,
}

pub(crate) struct HostMemory {
    regions: Regions,
    key: u32,
    bytes: Vec<u8>,
}

impl HostMemory {
    /// Registers memory for so many queue pairs.
    pub(crate) fn new(pieces: usize, seed: u8) -> Self {
        let mut regions = Regions::new([seed; 16]);
        let end = BASE + (pieces * PIECE) as u64;
        let key = kit::register(&mut regions, PdId(0), BASE..end, Access::ALL);
        HostMemory { regions, key, bytes: vec![0; pieces * PIECE] }
    }

    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// The memory of one message of a queue pair.
    pub(crate) fn sges(&self, piece: usize, area: Area, index: usize, len: usize) -> SgList {
        SgList::from_iter([Sge {
            addr: address(piece, area, index),
            len: len as u32,
            lkey: self.key,
        }])
    }

    /// Fills a piece with zeros.
    pub(crate) fn clear(&mut self, piece: usize) {
        self.bytes[piece * PIECE..(piece + 1) * PIECE].fill(0);
    }

    /// Fills the source of a message.
    pub(crate) fn fill(&mut self, piece: usize, index: usize, len: usize, sender: u64) {
        let at = (address(piece, Area::Source, index) - BASE) as usize;
        for (offset, byte) in self.bytes[at..at + len].iter_mut().enumerate() {
            *byte = content(sender, index, offset);
        }
    }

    pub(crate) fn gather(&self, pieces: &[Sge]) -> Vec<u8> {
        let slice = |sge: &Sge| &self.bytes[(sge.addr - BASE) as usize..][..sge.len as usize];
        pieces.iter().flat_map(slice).copied().collect()
    }

    /// Puts bytes where the core wants them. They have to be those of `sender` for that place.
    pub(crate) fn place(&mut self, sge: &Sge, bytes: &[u8], piece: usize, sender: u64) {
        let at = (sge.addr - BASE) as usize;
        assert_eq!(at / PIECE, piece, "bytes for the memory of another queue pair");
        let within = at % PIECE % AREA;
        assert!(at % PIECE >= AREA, "bytes for memory that nobody writes to");
        for (byte, offset) in bytes.iter().zip(within..) {
            let wanted = content(sender, offset / LONGEST, offset % LONGEST);
            assert_eq!(*byte, wanted, "a byte of another attempt is placed");
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Checks the bytes of a whole message from `sender`.
    pub(crate) fn check(&self, piece: usize, area: Area, index: usize, len: usize, sender: u64) {
        let at = (address(piece, area, index) - BASE) as usize;
        for (offset, byte) in self.bytes[at..at + len].iter().enumerate() {
            assert_eq!(*byte, content(sender, index, offset), "a byte of a whole message is wrong");
        }
    }
}

/// Where the peer's WRITEs go.
pub(crate) fn target(piece: usize, index: usize, rkey: u32) -> RemoteAddr {
    RemoteAddr { addr: address(piece, Area::Written, index), rkey }
}

fn address(piece: usize, area: Area, index: usize) -> u64 {
    BASE + (piece * PIECE + area as usize * AREA + index * LONGEST) as u64
}

/// A byte of a message; never 0. `sender` is one end of one attempt.
fn content(sender: u64, index: usize, offset: usize) -> u8 {
    let mixed = (sender << 16 ^ (index << 12 ^ offset) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8 | 1
}

impl Memory for HostMemory {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, _: u64, _: AtomicOp) -> Option<u64> {
        unreachable!("nobody asks for an atomic")
    }
}
