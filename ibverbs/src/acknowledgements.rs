//! Counts of events that programs have taken and not acknowledged. Their object may not be
//! destroyed before all are acknowledged.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Acknowledgements {
    missing: Mutex<u64>,
    changed: Condvar,
}

impl Acknowledgements {
    /// Counts an event that the program takes.
    pub(crate) fn expect(&self) {
        *self.missing() += 1;
    }

    /// Counts acknowledgements.
    pub(crate) fn take(&self, count: u64) {
        let mut missing = self.missing();
        *missing = missing.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Waits until all events are acknowledged.
    pub(crate) fn wait(&self) {
        let waited = self.changed.wait_while(self.missing(), |missing| *missing > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn missing(&self) -> MutexGuard<'_, u64> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
