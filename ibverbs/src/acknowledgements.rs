//! Events that were handed out and not acknowledged: what they are about may not be destroyed before.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Acknowledgements {
    missing: Mutex<u64>,
    changed: Condvar,
}

impl Acknowledgements {
    /// One more was handed out.
    pub(crate) fn expect(&self) {
        *self.missing() += 1;
    }

    /// So many were acknowledged.
    pub(crate) fn take(&self, count: u64) {
        let mut missing = self.missing();
        *missing = missing.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Until all that were handed out are acknowledged.
    pub(crate) fn wait(&self) {
        let waited = self.changed.wait_while(self.missing(), |missing| *missing > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn missing(&self) -> MutexGuard<'_, u64> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
