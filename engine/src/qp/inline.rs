//! Inline data: bytes copied when a work request is posted, so that the caller may reuse its buffer
//! at once.

use std::sync::Arc;

use braid_transport::{Access, PdId, Sge};

use crate::inner::EngineInner;
use crate::memory::{MemoryRegion, PageSize, RegisterError};

/// The inline buffers, one for each place in the send queue, in a region of the engine.
/// [`super::QpShared`] lists the free buffers, and the worker returns them there.
pub(crate) struct InlineBuffers {
    region: MemoryRegion,
    size: usize,
}

impl InlineBuffers {
    pub(crate) fn new(
        engine: Arc<EngineInner>,
        pd: PdId,
        count: u32,
        size: usize,
    ) -> Result<Self, RegisterError> {
        let len = count as usize * size.max(1);
        let region = MemoryRegion::allocate(engine, pd, len, Access::NONE, PageSize::Normal)?;
        Ok(InlineBuffers { region, size })
    }

    /// Copies `data`, at most the size of a buffer, into buffer `index`.
    pub(crate) fn fill(&self, index: u32, data: &[u8]) -> Sge {
        let start = index as usize * self.size;
        assert!(data.len() <= self.size, "the length was checked when the data was posted");
        self.region
            .write_at(start, data)
            .and_then(|()| self.region.slice(start..start + data.len()))
            .expect("every buffer lies in the region")
    }
}
