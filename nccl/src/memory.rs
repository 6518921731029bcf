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
    /// Whether peers write to the memory of a receiver.
    receives: bool,
}

impl RegionCache {
    pub(crate) fn new(pd: ProtectionDomain) -> Self {
        RegionCache { pd, regions: Mutex::default() }
    }

    /// Registers memory. Peers can write to that of a receiver.
    ///
    /// # Errors
    /// If the length is 0 or no key is left.
    ///
    /// # Safety
    /// See [`ProtectionDomain::register`], until the last equal region is dropped.
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
        receives: bool,
    ) -> Result<Arc<MemoryRegion>, Error> {
        let key = Key { start: start as usize, len, receives };
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = regions.by_key.get(&key).and_then(Weak::upgrade) {
            return Ok(region);
        }
        let access =
            if receives { Access::LOCAL_WRITE | Access::REMOTE_WRITE } else { Access::NONE };
        // SAFETY: the caller vouches for the memory.
        let region = Arc::new(unsafe { self.pd.register(start, len, access) }?);
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
        // SAFETY: the array outlives the registrations, and no peer exists.
        let register = |len, receives| unsafe { cache.register(start, len, receives) }.unwrap();
        let (a, b) = (register(64, true), register(64, true));
        assert!(Arc::ptr_eq(&a, &b));
        let (shorter, sends) = (register(32, true), register(64, false));
        assert!(!Arc::ptr_eq(&a, &shorter));
        assert!(!Arc::ptr_eq(&a, &sends), "a sender's memory is not for peers");
        let key = a.rkey();
        drop((a, b));
        assert_ne!(register(64, true).rkey(), key, "the old key is dead");
        for len in (1..=64).cycle().take(1000) {
            drop(register(len, true));
            drop(register(len, false));
        }
        let known = cache.regions.lock().unwrap().by_key.len();
        assert!(known < 40, "{known} are known, of which two are alive");
    }
}
