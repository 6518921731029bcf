//! Memory of work requests.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use braid::{Access, MemoryError, MemoryRegion, ProtectionDomain, RemoteRegion, Sge};

use crate::Error;

/// A part of a memory region. Clones are handles of the same bytes.
///
/// The region is deregistered when the last handle has gone. Work that is posted has one, too.
#[derive(Clone, Debug)]
pub struct Buffer {
    region: Arc<MemoryRegion>,
    offset: usize,
    len: usize,
}

impl Buffer {
    /// Returns a handle of a whole region.
    pub fn new(region: Arc<MemoryRegion>) -> Self {
        let len = region.len();
        Buffer { region, offset: 0, len }
    }

    /// Allocates and registers `len` bytes.
    ///
    /// # Errors
    /// [`Error::Register`].
    pub fn zeroed(pd: &ProtectionDomain, len: usize, access: Access) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(pd.alloc_mr(len, access)?)))
    }

    /// Registers the bytes of a vector.
    ///
    /// # Errors
    /// [`Error::Register`]. [`ProtectionDomain::register_vec`] also returns the vector.
    pub fn from_vec(pd: &ProtectionDomain, bytes: Vec<u8>, access: Access) -> Result<Self, Error> {
        let region = pd.register_vec(bytes, access).map_err(|error| error.source)?;
        Ok(Self::new(Arc::new(region)))
    }

    /// Deregisters the region and returns the vector that it was made of.
    ///
    /// # Errors
    /// There are other handles, posted work for instance, or the region is not a vector's; this
    /// handle is returned.
    pub fn into_vec(self) -> Result<Vec<u8>, Self> {
        let Buffer { region, offset, len } = self;
        let back = |region| Buffer { region, offset, len };
        let region = Arc::try_unwrap(region).map_err(back)?;
        region.into_vec().map_err(|region| back(Arc::new(region)))
    }

    /// Returns a handle of a part.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, MemoryError> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            let len = end.saturating_sub(start);
            return Err(MemoryError::Bounds { offset: start, len, region_len: self.len });
        }
        let region = self.region.clone();
        Ok(Buffer { region, offset: self.offset + start, len: end - start })
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes out of the buffer.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let read = self.region.read_at(self.offset, &mut bytes);
        read.expect("a buffer is inside of its region");
        bytes
    }

    /// Copies bytes into the buffer, from its beginning.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`]: there are more bytes than the buffer has.
    pub fn write(&self, bytes: &[u8]) -> Result<(), MemoryError> {
        let part = self.slice(..bytes.len())?;
        part.region.write_at(part.offset, bytes)
    }

    /// The region that the bytes belong to.
    pub fn region(&self) -> &Arc<MemoryRegion> {
        &self.region
    }

    /// The description that a peer needs to access these bytes.
    pub fn remote(&self) -> RemoteRegion {
        let whole = self.region.remote();
        RemoteRegion { addr: whole.addr + self.offset as u64, len: self.len as u64, ..whole }
    }

    /// The piece for a work request.
    pub(crate) fn piece(&self) -> Result<Sge, Error> {
        Ok(self.region.slice(self.offset..self.offset + self.len)?)
    }
}
