//! The receive credits and message buffers of a protection domain.

use braid_verbs::{Pd, RecvWr, Srq, VerbsError};

use super::buffers::{Buffers, BuffersError};

/// Receive buffers that are made at a time.
const CHUNK: usize = 128;
/// Trunks that get room for a window of [`CHUNK`] segments; later ones get a third of that.
const WIDE: usize = 8;
/// Messages that a segment may take: its header's and its payload's. One more for segments of the other direction,
/// which are never blind in both.
const MESSAGES: usize = 3;
/// Send buffers.
const SENDS: usize = 256;
/// Buffers that are given back to the NIC in one call.
const RETURNS: usize = 16;

/// A shared receive queue with as many buffers as all trunks together may have messages under way, so that none
/// is dropped for want of one, and the buffers that messages are sent from.
pub(crate) struct Pool {
    /// In the high half of the ids of its receive buffers.
    number: u32,
    pub(crate) pd: Pd,
    // Before the buffers: the NIC lets go of them first.
    pub(crate) srq: Srq,
    chunks: Vec<Buffers>,
    size: usize,
    granted: usize,
    trunks: usize,
    returned: Vec<u32>,
    send: Buffers,
    free: Vec<u32>,
}

impl Pool {
    /// For messages of up to `size` bytes.
    pub(crate) fn new(
        number: u32,
        pd: Pd,
        size: usize,
        max_srq_wr: u32,
    ) -> Result<Self, BuffersError> {
        let srq = pd.create_srq(max_srq_wr.min(1 << 14), 1)?;
        let send = Buffers::new(&pd, SENDS, size)?;
        let (chunks, returned) = (Vec::new(), Vec::new());
        let free = (0..SENDS as u32).collect();
        Ok(Pool { number, pd, srq, chunks, size, granted: 0, trunks: 0, returned, send, free })
    }

    /// Room for one more trunk: how many chunks, for [`Pool::withdraw`], and the window that they hold.
    pub(crate) fn grant(&mut self) -> Result<(usize, u16), BuffersError> {
        let chunks = if self.trunks < WIDE { MESSAGES } else { 1 };
        while self.chunks.len() < self.granted + chunks {
            self.grow()?;
        }
        (self.granted, self.trunks) = (self.granted + chunks, self.trunks + 1);
        Ok((chunks, (chunks * CHUNK / MESSAGES) as u16))
    }

    /// A trunk is gone.
    pub(crate) fn withdraw(&mut self, chunks: usize) {
        (self.granted, self.trunks) = (self.granted - chunks, self.trunks - 1);
    }

    fn grow(&mut self) -> Result<(), BuffersError> {
        let first = self.chunks.len() * CHUNK;
        self.chunks.push(Buffers::new(&self.pd, CHUNK, self.size)?);
        self.returned.extend((first..first + CHUNK).map(|index| index as u32));
        self.give_back();
        match self.returned.is_empty() {
            true => Ok(()),
            false => Err(BuffersError::Verbs(VerbsError::OutOfRange {
                what: "receive buffers of a shared receive queue",
                value: (first + CHUNK) as u64,
                max: first as u64,
            })),
        }
    }

    /// What the NIC has written into a receive buffer.
    ///
    /// # Safety
    /// Its completion has come, and it was not returned since.
    pub(crate) unsafe fn received(&self, index: u32, len: usize) -> Option<&[u8]> {
        let (chunk, index) = (self.chunks.get(index as usize / CHUNK)?, index as usize % CHUNK);
        // SAFETY: by the caller the NIC is done with it.
        (len <= chunk.size()).then(|| unsafe { chunk.bytes(index, len) })
    }

    /// A receive buffer is free again.
    pub(crate) fn recycle(&mut self, index: u32) {
        self.returned.push(index);
        if self.returned.len() >= RETURNS {
            self.give_back();
        }
    }

    /// Hands the NIC all receive buffers that are free.
    pub(crate) fn give_back(&mut self) {
        let number = u64::from(self.number);
        while !self.returned.is_empty() {
            let first = self.returned.len().saturating_sub(RETURNS);
            let batch = &self.returned[first..];
            let entry = |index: &u32| {
                let (chunk, index) = (*index as usize / CHUNK, *index as usize % CHUNK);
                [self.chunks[chunk].entry(index, self.size)]
            };
            let entries: smallvec::SmallVec<[_; RETURNS]> = batch.iter().map(entry).collect();
            let wrs = batch.iter().zip(&entries);
            let wrs: smallvec::SmallVec<[_; RETURNS]> =
                wrs.map(|(id, sges)| RecvWr { id: number << 32 | u64::from(*id), sges }).collect();
            // SAFETY: the buffers are ours until posted, and live as long as the queue.
            let posted = match unsafe { self.srq.post_recv(&wrs) } {
                Ok(()) => wrs.len(),
                Err(error) => {
                    tracing::warn!(%error, "receive buffers could not be posted");
                    error.index
                }
            };
            let all = posted == wrs.len();
            self.returned.drain(first..first + posted);
            if !all {
                return;
            }
        }
    }

    /// Send buffers that are free.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// A send buffer, filled by `write`, which returns how many bytes.
    pub(crate) fn fill(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> Option<(u32, usize)> {
        let slot = self.free.pop()?;
        // SAFETY: it was free, so neither the NIC nor anybody else has it.
        let len = write(unsafe { self.send.bytes_mut(slot as usize) });
        Some((slot, len))
    }

    /// Writes `bytes` behind the first `at` of a send buffer that is not posted yet.
    pub(crate) fn extend(&mut self, slot: u32, at: usize, bytes: &[u8]) {
        // SAFETY: whoever took the buffer has not posted it.
        let buffer = unsafe { self.send.bytes_mut(slot as usize) };
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The first `len` bytes of a send buffer, for the NIC.
    pub(crate) fn entry(&self, slot: u32, len: usize) -> braid_verbs::Sge {
        self.send.entry(slot as usize, len)
    }

    /// The NIC is done with a send buffer.
    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Bytes of a message buffer.
    pub(crate) fn message_len(&self) -> usize {
        self.size
    }
}
