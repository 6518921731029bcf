//! Memory for the results of atomics.

use std::sync::{Arc, Mutex};

use braid::{Access, MemoryError, MemoryRegion, ProtectionDomain, RegisterError, Sge};

use crate::slot::lock;

/// Words of 8 bytes, of which each atomic in flight has one.
pub(crate) struct Scratch {
    region: MemoryRegion,
    free: Mutex<Vec<usize>>,
}

impl Scratch {
    /// Allocates `count` words.
    pub(crate) fn new(pd: &ProtectionDomain, count: usize) -> Result<Arc<Self>, RegisterError> {
        let region = pd.alloc_mr(8 * count, Access::LOCAL_WRITE)?;
        Ok(Arc::new(Scratch { region, free: Mutex::new((0..count).rev().collect()) }))
    }

    /// Takes a word. `None`: all are in use.
    pub(crate) fn take(self: &Arc<Self>) -> Option<ScratchWord> {
        let index = lock(&self.free).pop()?;
        Some(ScratchWord { scratch: self.clone(), index })
    }
}

/// A word in use.
pub(crate) struct ScratchWord {
    scratch: Arc<Scratch>,
    index: usize,
}

impl ScratchWord {
    pub(crate) fn piece(&self) -> Result<Sge, MemoryError> {
        self.scratch.region.slice(8 * self.index..8 * self.index + 8)
    }

    pub(crate) fn value(&self) -> u64 {
        self.scratch.region.load_u64(8 * self.index).unwrap_or_default()
    }
}

impl Drop for ScratchWord {
    fn drop(&mut self) {
        lock(&self.scratch.free).push(self.index);
    }
}
