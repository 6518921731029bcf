//! The send buffers of a connection.

use braid_verbs::{Pd, Sge};

use super::buffers::{Buffers, BuffersError};

const SENDS: usize = 256;

/// Send buffers, each free or in use.
pub(crate) struct Pool {
    pub(crate) pd: Pd,
    buffers: Buffers,
    free: Vec<u32>,
}

impl Pool {
    /// Creates buffers for messages of up to `size` bytes.
    pub(crate) fn new(pd: Pd, size: usize) -> Result<Self, BuffersError> {
        let buffers = Buffers::new(&pd, SENDS, size)?;
        let free = (0..SENDS as u32).collect();
        Ok(Pool { pd, buffers, free })
    }

    /// The number of free buffers.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether at least half of the buffers are free.
    pub(crate) fn is_half_free(&self) -> bool {
        self.free.len() >= SENDS / 2
    }

    /// Takes a free buffer.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Writes `bytes` at offset `at` of a taken buffer that is not posted yet.
    pub(crate) fn write(&mut self, slot: u32, at: usize, bytes: &[u8]) {
        // SAFETY: whoever took the buffer has not posted it.
        let buffer = unsafe { self.buffers.bytes_mut(slot as usize) };
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// `len` bytes of a buffer from `at` on, for the NIC.
    pub(crate) fn part(&self, slot: u32, at: usize, len: usize) -> Sge {
        let whole = self.buffers.entry(slot as usize, at + len);
        Sge { addr: whole.addr + at as u64, len: len as u32, ..whole }
    }

    /// The first `len` bytes of a buffer, for the NIC.
    pub(crate) fn entry(&self, slot: u32, len: usize) -> Sge {
        self.buffers.entry(slot as usize, len)
    }

    /// Releases a buffer that the NIC no longer reads.
    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
