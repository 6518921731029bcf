//! A host's memory: what the peer may touch, what it must not, and buffers that are lent to work
//! requests.
//!
//! All that is placed goes through here, so every byte that lands outside of what keys and posted
//! work requests allow is found at once.

use braid_transport::{Access, AtomicOp, Memory, PdId, Regions, Sge};

use super::kit;

/// Bytes of a buffer.
pub(crate) const BUFFER: u32 = 512;
/// Bytes of memory that the peer may write.
pub(crate) const TARGET: u64 = 4096;
const BUFFERS: usize = 96;
const BASE: u64 = 1 << 20;
/// Between the regions, that none ends where another begins.
const GAP: u64 = 4096;

/// The domain of the queue pairs.
pub(crate) const PD: PdId = PdId(1);

/// A registered piece and its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) key: u32,
}

/// The owner of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lease {
    Free,
    /// A work request reads it.
    Source,
    /// A work request fills it; these bytes have come.
    Landing(Vec<bool>),
}

pub(crate) struct HostMemory {
    regions: Regions,
    /// The peer may read and write it, and use atomics on it.
    pub(crate) target: Piece,
    /// The peer may read it.
    pub(crate) exposed: Piece,
    /// Memory of another domain, which allows everything.
    pub(crate) foreign: Piece,
    /// No peer may touch it but through work requests.
    pub(crate) buffers: Piece,
    leases: Vec<Lease>,
    bytes: Vec<u8>,
}

impl HostMemory {
    pub(crate) fn new(secret: u8) -> Self {
        let mut regions = Regions::new([secret; 16]);
        let mut end = BASE;
        let mut register = |pd, len, access| {
            let addr = end + GAP;
            end = addr + len;
            let key = kit::register(&mut regions, pd, addr..addr + len, access);
            Piece { addr, len, key }
        };
        let target = register(PD, TARGET, Access::ALL);
        let exposed = register(PD, 1024, Access::REMOTE_READ);
        let foreign = register(PdId(2), 1024, Access::ALL);
        let buffers = register(PD, BUFFERS as u64 * u64::from(BUFFER), Access::LOCAL_WRITE);
        let bytes = vec![0; (end - BASE) as usize];
        HostMemory {
            regions,
            target,
            exposed,
            foreign,
            buffers,
            leases: vec![Lease::Free; BUFFERS],
            bytes,
        }
    }

    fn sge(&self, index: usize, len: u32) -> Sge {
        let addr = self.buffers.addr + index as u64 * u64::from(BUFFER);
        Sge { addr, len, lkey: self.buffers.key }
    }

    fn lend(&mut self, lease: Lease, len: u32) -> Option<Sge> {
        let index = self.leases.iter().position(|lease| *lease == Lease::Free)?;
        self.leases[index] = lease;
        Some(self.sge(index, len))
    }

    /// A buffer with these bytes in it, for a work request to read.
    pub(crate) fn lend_source(&mut self, bytes: &[u8]) -> Option<Sge> {
        let sge = self.lend(Lease::Source, bytes.len() as u32)?;
        self.write(sge.addr, bytes);
        Some(sge)
    }

    /// A buffer for a work request to fill.
    pub(crate) fn lend_landing(&mut self, len: u32) -> Option<Sge> {
        self.lend(Lease::Landing(vec![false; len as usize]), len)
    }

    /// Takes the buffer of an ended work request back. Checks that the first `filled` bytes came.
    pub(crate) fn give_back(&mut self, sge: Sge, filled: u32) -> Vec<u8> {
        let index = self.index_of(sge.addr, 0).expect("a buffer");
        let lease = std::mem::replace(&mut self.leases[index], Lease::Free);
        if let Lease::Landing(placed) = lease {
            let holes = placed[..filled as usize].iter().filter(|there| !**there).count();
            assert_eq!(holes, 0, "a success of {filled} bytes, {holes} of which have not come");
        }
        self.read(sge.addr, filled.into())
    }

    fn index_of(&self, addr: u64, len: u64) -> Option<usize> {
        let offset = addr.checked_sub(self.buffers.addr)?;
        let index = (offset / u64::from(BUFFER)) as usize;
        let fits = offset % u64::from(BUFFER) + len <= u64::from(BUFFER);
        (index < BUFFERS && fits).then_some(index)
    }

    pub(crate) fn write(&mut self, addr: u64, bytes: &[u8]) {
        let at = (addr - BASE) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, addr: u64, len: u64) -> Vec<u8> {
        let at = (addr - BASE) as usize;
        self.bytes[at..at + len as usize].to_vec()
    }

    /// Puts a part of a payload where the core wants it.
    pub(crate) fn place(&mut self, piece: &Sge, payload: &[u8]) {
        assert_eq!(piece.len as usize, payload.len());
        let len = u64::from(piece.len);
        let allowed = self.regions.check(PD, piece.lkey, piece.addr, len, Access::LOCAL_WRITE);
        assert_eq!(allowed, Ok(piece.addr), "placement at {piece:x?}");
        if piece.lkey == self.buffers.key {
            let index = self.index_of(piece.addr, len).expect("placement leaves its buffer");
            let from = ((piece.addr - self.buffers.addr) % u64::from(BUFFER)) as usize;
            let Lease::Landing(placed) = &mut self.leases[index] else {
                panic!("placement at {piece:x?}, which no work request is waiting for");
            };
            let bytes = placed.get_mut(from..from + payload.len());
            for there in bytes.expect("placement beyond the work request") {
                assert!(!*there, "bytes at {piece:x?} are placed twice");
                *there = true;
            }
        } else {
            assert_eq!(piece.lkey, self.target.key, "the peer writes where it may not");
        }
        self.write(piece.addr, payload);
    }

    /// Returns the payload to send, or `None` if the memory does not allow it.
    pub(crate) fn gather(&self, pd: PdId, access: Access, pieces: &[Sge]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            self.regions.check(pd, piece.lkey, piece.addr, piece.len.into(), access).ok()?;
            if access == Access::NONE {
                let index = self.index_of(piece.addr, piece.len.into()).expect("a buffer");
                assert_eq!(self.leases[index], Lease::Source, "{piece:x?} is sent too late");
            } else {
                let readable = [self.target.key, self.exposed.key];
                assert!(readable.contains(&piece.lkey), "the peer reads {piece:x?}");
            }
            bytes.extend(self.read(piece.addr, piece.len.into()));
        }
        Some(bytes)
    }
}

impl Memory for HostMemory {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, addr: u64, _: AtomicOp) -> Option<u64> {
        let inside = self.target.addr..=self.target.addr + self.target.len - 8;
        assert!(inside.contains(&addr) && addr.is_multiple_of(8), "an atomic at {addr:#x}");
        Some(u64::from_ne_bytes(self.read(addr, 8).try_into().expect("8 bytes")))
    }
}
