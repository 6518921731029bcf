//! Numbered message buffers of one size in memory registered with the NIC.

use std::io;
use std::slice;

use braid_verbs::{Mr, MrAccess, Pd, Sge, VerbsError};

use crate::datapath::JoinError;
use crate::memory::Mapping;

/// Buffers that belong either to the engine or to the NIC. The user of a buffer keeps track of its
/// owner by its number.
pub(crate) struct Buffers {
    // Before the mapping, so that the NIC releases the memory first.
    mr: Mr,
    mapping: Mapping,
    size: usize,
    count: usize,
}

/// The reason why there are no buffers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuffersError {
    #[error("no memory for {0} bytes of message buffers: {1}")]
    Memory(usize, #[source] io::Error),
    #[error(transparent)]
    Verbs(#[from] VerbsError),
}

impl From<BuffersError> for JoinError {
    fn from(error: BuffersError) -> Self {
        match error {
            BuffersError::Verbs(error) => JoinError::Verbs(error),
            other => JoinError::Buffers(other.to_string()),
        }
    }
}

impl Buffers {
    pub(crate) fn new(pd: &Pd, count: usize, size: usize) -> Result<Self, BuffersError> {
        let size = size.next_multiple_of(64);
        let len = size * count;
        let mapping = Mapping::new(len, false).map_err(|error| BuffersError::Memory(len, error))?;
        // SAFETY: the mapping outlives the registration, and no reference to its bytes is made
        // while the NIC has the buffer that they are in.
        let mr = unsafe { pd.register(mapping.start().as_ptr(), len, MrAccess::LOCAL_WRITE) }?;
        Ok(Buffers { mr, mapping, size, count })
    }

    /// Bytes of each buffer.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The first `len` bytes of a buffer, for the NIC.
    pub(crate) fn entry(&self, index: usize, len: usize) -> Sge {
        assert!(index < self.count && len <= self.size, "a buffer that does not exist");
        let addr = self.mapping.start().as_ptr() as u64 + (index * self.size) as u64;
        Sge { addr, len: len as u32, lkey: self.mr.lkey() }
    }

    /// The first `len` bytes of a buffer.
    ///
    /// # Safety
    /// The buffer must not belong to the NIC, and nothing may write to it while the result lives.
    pub(crate) unsafe fn bytes(&self, index: usize, len: usize) -> &[u8] {
        let entry = self.entry(index, len);
        // SAFETY: inside the mapping, by `entry`; the caller vouches that nobody writes there.
        unsafe { slice::from_raw_parts(entry.addr as *const u8, len) }
    }

    /// All bytes of a buffer.
    ///
    /// # Safety
    /// As for [`Buffers::bytes`], and nothing may read it while the result lives.
    #[allow(clippy::mut_from_ref, reason = "buffers are handed out one by one, by number")]
    pub(crate) unsafe fn bytes_mut(&self, index: usize) -> &mut [u8] {
        let entry = self.entry(index, self.size);
        // SAFETY: inside the mapping, by `entry`; the caller vouches that it is the only one.
        unsafe { slice::from_raw_parts_mut(entry.addr as *mut u8, self.size) }
    }
}
