//! Host memory for copies: one mapping, from which blocks are taken and to which they return.

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;

use super::context::Context;
use super::error::CudaFault;
use crate::memory::Mapping;

/// Blocks begin at multiples of this, so that words in them are aligned as in the message.
const ALIGN: usize = 64;

/// A piece of an arena.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    offset: usize,
    len: usize,
    /// The mapping of a block that is too long for the arena.
    own: Option<Mapping>,
}

// SAFETY: a block is an address range of a mapping; any thread may use it.
unsafe impl Send for Block {}

impl Block {
    /// The first byte. The block is writable as long as its arena and the block exist.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The address of the first byte, with its provenance exposed.
    pub(super) fn addr(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }
}

/// Pinned memory of the host.
///
/// Invariant: `free` has the free ranges by offset, and no two of them touch.
#[derive(Debug)]
pub(super) struct Arena {
    mapping: Mapping,
    free: BTreeMap<usize, usize>,
    available: usize,
    /// Bytes of blocks that are too long for the arena.
    outside: usize,
}

impl Arena {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let mapping = Mapping::new(len, false)?;
        let available = mapping.len();
        Ok(Arena { mapping, free: BTreeMap::from([(0, available)]), available, outside: 0 })
    }

    /// Pins the memory for copies of this context.
    pub(super) fn pin(&self, context: &Context) -> Result<(), CudaFault> {
        context.pin(self.mapping.start().as_ptr(), self.mapping.len())
    }

    pub(super) fn unpin(&self, context: &Context) {
        context.unpin(self.mapping.start().as_ptr());
    }

    /// Free bytes, perhaps in several pieces.
    pub(super) fn available(&self) -> usize {
        self.available
    }

    /// Takes a block of `len` bytes. `None`: there is no room before others return.
    pub(super) fn take(&mut self, len: usize) -> Option<Block> {
        let size = len.max(1).next_multiple_of(ALIGN);
        let (&offset, &room) = self.free.iter().find(|(_, room)| **room >= size)?;
        self.free.remove(&offset);
        if room > size {
            self.free.insert(offset + size, room - size);
        }
        self.available -= size;
        // SAFETY: the range lies in the mapping.
        let start = unsafe { self.mapping.start().add(offset) };
        Some(Block { start, offset, len: size, own: None })
    }

    /// Takes a block of any length. One that is longer than half of the arena gets a mapping of its
    /// own, unless such blocks have `most` bytes already. `None`: there is no room before others
    /// return.
    pub(super) fn take_any(&mut self, len: usize, most: usize) -> io::Result<Option<Block>> {
        if len <= self.mapping.len() / 2 {
            return Ok(self.take(len));
        }
        if self.outside > 0 && self.outside + len > most {
            return Ok(None);
        }
        self.map(len).map(Some)
    }

    /// Takes a block with a mapping of its own.
    pub(super) fn map(&mut self, len: usize) -> io::Result<Block> {
        let mapping = Mapping::new(len, false)?;
        let start = mapping.start();
        self.outside += len;
        Ok(Block { start, offset: 0, len, own: Some(mapping) })
    }

    /// Takes a block back.
    pub(super) fn give_back(&mut self, block: Block) {
        if block.own.is_some() {
            self.outside -= block.len;
            return;
        }
        let (mut offset, mut len) = (block.offset, block.len);
        self.available += len;
        if let Some(after) = self.free.remove(&(offset + len)) {
            len += after;
        }
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            self.free.remove(&before);
            (offset, len) = (before, room + len);
        }
        self.free.insert(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn long_blocks_have_mappings_of_their_own() {
        let mut arena = Arena::new(1 << 16).unwrap();
        let long = arena.take_any(1 << 20, 1 << 20).unwrap().expect("the first one");
        assert_eq!(arena.available(), 1 << 16);
        assert!(arena.take_any(1 << 20, 1 << 20).unwrap().is_none(), "one at a time");
        arena.give_back(long);
        assert!(arena.take_any(2 << 20, 1 << 20).unwrap().is_some(), "the only one may be longer");
    }

    /// Blocks lie in the arena and do not overlap, and nothing is lost.
    #[test]
    fn blocks_are_disjoint() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        for _ in 0..100 {
            let mut arena = Arena::new(1 << 16).unwrap();
            let whole = arena.available();
            let mut taken: Vec<Block> = Vec::new();
            for _ in 0..200 {
                let number = rng.random_range(0_usize..9000);
                if rng.random_bool(0.5) {
                    let Some(block) = arena.take(number) else { continue };
                    let range = block.offset..block.offset + block.len;
                    assert!(block.len >= number && range.end <= whole);
                    let apart = |other: &Block| {
                        range.end <= other.offset || other.offset + other.len <= range.start
                    };
                    assert!(taken.iter().all(apart));
                    taken.push(block);
                } else if !taken.is_empty() {
                    let block = taken.swap_remove(number % taken.len());
                    arena.give_back(block);
                }
                let used: usize = taken.iter().map(|block| block.len).sum();
                assert_eq!(arena.available(), whole - used);
            }
            taken.into_iter().for_each(|block| arena.give_back(block));
            assert_eq!(arena.free, BTreeMap::from([(0, whole)]));
        }
    }
}
