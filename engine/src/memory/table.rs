//! The regions of an engine: read at every post and every packet, changed rarely.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Cache, Guard};
use braid_transport::{Region, Regions};

use crate::cuda::Contexts;
use crate::random;

/// The table of regions. Readers take a snapshot and never wait. A writer makes a new table, which
/// shares most with the earlier one, and swaps it in.
pub(crate) struct RegionTable {
    current: Arc<ArcSwap<Regions>>,
    /// Held by the thread that makes the next table.
    writer: Mutex<()>,
    /// The contexts of regions in device memory.
    pub(crate) contexts: Contexts,
}

/// A worker's snapshot, which is read again only after the table has changed.
pub(crate) type RegionCache = Cache<Arc<ArcSwap<Regions>>, Arc<Regions>>;

impl RegionTable {
    pub(crate) fn new() -> Self {
        let current = Arc::new(ArcSwap::from_pointee(Regions::new(random::bytes())));
        RegionTable { current, writer: Mutex::new(()), contexts: Contexts::default() }
    }

    pub(crate) fn load(&self) -> Guard<Arc<Regions>> {
        self.current.load()
    }

    pub(crate) fn cache(&self) -> RegionCache {
        Cache::new(self.current.clone())
    }

    /// Adds a region. `None`: every key is in use.
    pub(crate) fn insert(&self, region: Region) -> Option<u32> {
        self.change(|regions| regions.insert(region))
    }

    /// Puts another region under a key that is in use. Workers may still use the earlier table, as
    /// after [`RegionTable::remove`].
    pub(crate) fn replace(&self, key: u32, region: Region) {
        self.change(|regions| regions.replace(key, region));
    }

    /// Removes a region. Workers may use the earlier table until each has been locked once.
    pub(crate) fn remove(&self, key: u32) {
        self.change(|regions| regions.remove(key));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Regions) -> T) -> T {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut regions = Regions::clone(&self.current.load());
        let outcome = change(&mut regions);
        self.current.store(Arc::new(regions));
        outcome
    }
}
