//! Empty blocks, which take headers and encrypted packets until the kernel has taken them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block, at least: an encrypted packet of the longest kind fits.
const BLOCK: usize = 72 << 10;
/// The largest number of empty blocks that are kept: 4.6 MB, as many as a window of 4 MiB takes if
/// it is encrypted in one go.
const MOST: usize = 64;

/// The empty blocks of all connections of a datapath. The block that was emptied last is filled
/// next, because the processor's cache still has it. If each connection had its own, the blocks of
/// sixteen paths would not fit the cache.
#[derive(Clone, Default)]
pub(super) struct Spares(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spares {
    /// Returns an empty block that takes at least `room` bytes. All of its capacity is initialized.
    pub(super) fn take(&self, room: usize) -> Vec<u8> {
        let spare = self.lock().pop_if(|spare| spare.capacity() >= room);
        spare.unwrap_or_else(|| new_block(room))
    }

    /// Keeps a block for the next bytes. A longer one than usual is freed.
    pub(super) fn put(&self, mut block: Vec<u8>) {
        let mut spares = self.lock();
        if spares.len() < MOST && block.capacity() <= BLOCK {
            block.clear();
            spares.push(block);
        }
    }

    /// Frees the blocks.
    pub(super) fn clear(&self) {
        *self.lock() = Vec::new();
    }

    /// One thread at a time uses the connections of a datapath, so nobody waits here.
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a block that takes at least `room` bytes. All of its capacity is initialized.
pub(super) fn new_block(room: usize) -> Vec<u8> {
    let mut block = vec![0; room.max(BLOCK)];
    block.clear();
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_was_emptied_last_is_filled_next() {
        let (spares, other) = (Spares::default(), Spares::default());
        let connections = [spares.clone(), spares.clone()];
        let mut block = connections[0].take(10);
        block.extend_from_slice(b"bytes");
        let (first, last) = (block.as_ptr(), connections[1].take(BLOCK));
        let last_at = last.as_ptr();
        connections[0].put(block);
        connections[1].put(last);
        let next = spares.take(100);
        assert_eq!((next.as_ptr(), next.len(), next.capacity()), (last_at, 0, BLOCK));
        let next = spares.take(100);
        assert_eq!(next.as_ptr(), first);
        assert!(other.lock().is_empty());
    }

    #[test]
    fn few_blocks_of_the_usual_length_are_kept() {
        let spares = Spares::default();
        (0..2 * MOST).for_each(|_| spares.put(new_block(1)));
        assert_eq!(spares.lock().len(), MOST);
        assert!(spares.take(BLOCK + 1).capacity() > BLOCK);
        assert_eq!(spares.lock().len(), MOST, "a longer block replaces none");
        spares.clear();
        spares.put(new_block(BLOCK + 1));
        assert!(spares.lock().is_empty());
    }
}
