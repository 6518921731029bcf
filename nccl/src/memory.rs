//! Registered memory. NCCL registers the same buffers for many communicators of a device, so equal
//! registrations share a region.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use braid::{Access, MemoryRegion, ProtectionDomain};

use crate::device_context::DeviceContext;
use crate::error::Error;

/// `NCCL_PTR_HOST`.
pub(crate) const HOST_MEMORY: c_int = 1;
/// `NCCL_PTR_CUDA`.
pub(crate) const CUDA_MEMORY: c_int = 2;

/// The memory that is registered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MemoryKind {
    Host,
    /// Memory of a GPU. The address is a device pointer.
    Cuda,
}

/// The use of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MemoryUse {
    /// Messages leave from it. Peers cannot access it.
    Send,
    /// Peers write to it.
    Receive,
    /// Peers read it, write to it and signal in it: the RMA tables.
    Symmetric,
}

impl MemoryUse {
    fn access(self) -> Access {
        match self {
            MemoryUse::Send => Access::NONE,
            MemoryUse::Receive => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            MemoryUse::Symmetric => Access::ALL,
        }
    }
}

/// The `mhandle` of NCCL. Dropping the last one for a region deregisters it.
pub(crate) struct Registration {
    pub(crate) region: Arc<MemoryRegion>,
    // After the region, so that the engine ends with its device and not here.
    context: Arc<DeviceContext>,
}

impl Registration {
    pub(crate) fn new(region: Arc<MemoryRegion>, context: Arc<DeviceContext>) -> Self {
        Registration { region, context }
    }

    /// Returns whether this process registered the memory.
    pub(crate) fn is_here(&self) -> bool {
        self.context.is_here()
    }
}

/// The regions of a device.
///
/// A region is dropped with its last registration, because the memory may be unmapped at once.
pub(crate) struct RegionCache {
    pd: ProtectionDomain,
    regions: Mutex<RegionTable>,
}

#[derive(Default)]
struct RegionTable {
    by_key: HashMap<Key, Weak<MemoryRegion>>,
    /// Number of entries at which stale ones are removed: twice the number that remained last time,
    /// so that the cost per registration is constant.
    sweep_at: usize,
}

impl RegionTable {
    fn enter(&mut self, key: Key, region: &Arc<MemoryRegion>) {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, region| region.strong_count() > 0);
            self.sweep_at = 2 * self.by_key.len() + 16;
        }
        self.by_key.insert(key, Arc::downgrade(region));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    start: usize,
    len: usize,
    kind: MemoryKind,
    purpose: MemoryUse,
}

impl RegionCache {
    pub(crate) fn new(pd: ProtectionDomain) -> Self {
        RegionCache { pd, regions: Mutex::default() }
    }

    /// Registers memory.
    ///
    /// # Errors
    /// If the length is 0, no key is left, or CUDA does not know device memory there.
    ///
    /// # Safety
    /// See [`ProtectionDomain::register`] and [`ProtectionDomain::register_cuda`], until the last
    /// equal region is dropped.
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
        kind: MemoryKind,
        purpose: MemoryUse,
    ) -> Result<Arc<MemoryRegion>, Error> {
        let key = Key { start: start as usize, len, kind, purpose };
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = regions.by_key.get(&key).and_then(Weak::upgrade) {
            return Ok(region);
        }
        let access = purpose.access();
        // SAFETY: the caller vouches for the memory.
        let region = Arc::new(unsafe {
            match kind {
                MemoryKind::Host => self.pd.register(start, len, access),
                MemoryKind::Cuda => self.pd.register_cuda(start as u64, len, access),
            }
        }?);
        regions.enter(key, &region);
        Ok(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid::{Datapath, Engine, EngineConfig, MemFabric, Progress};

    #[test]
    fn equal_registrations_share_a_region_and_the_last_one_ends_it() {
        let config = EngineConfig {
            datapath: Datapath::Mem(MemFabric::new()),
            progress: Progress::Application,
            ..EngineConfig::default()
        };
        let cache = RegionCache::new(Engine::new(config).unwrap().alloc_pd());
        let mut memory = [0u8; 64];
        let start = memory.as_mut_ptr();
        let register = |len, purpose| {
            // SAFETY: the array outlives the registrations, and no peer exists.
            unsafe { cache.register(start, len, MemoryKind::Host, purpose) }.unwrap()
        };
        use MemoryUse::{Receive, Send, Symmetric};
        let (a, b) = (register(64, Receive), register(64, Receive));
        assert!(Arc::ptr_eq(&a, &b));
        let (shorter, sends) = (register(32, Receive), register(64, Send));
        assert!(!Arc::ptr_eq(&a, &shorter));
        assert!(!Arc::ptr_eq(&a, &sends), "a sender's memory is not for peers");
        assert!(!Arc::ptr_eq(&a, &register(64, Symmetric)), "peers do not read it");
        let key = a.rkey();
        drop((a, b));
        assert_ne!(register(64, Receive).rkey(), key, "the old key is dead");
        for len in (1..=64).cycle().take(1000) {
            drop(register(len, Receive));
            drop(register(len, Send));
        }
        let known = cache.regions.lock().unwrap().by_key.len();
        assert!(known < 40, "{known} are known, of which two are alive");
    }
}
