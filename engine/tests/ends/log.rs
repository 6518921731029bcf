//! The log of this process since the first test asked for it.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn log() -> MutexGuard<'static, Vec<String>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to record the log.
pub(crate) fn listen_to_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hear = |record: &braid_log::Record| log().push(record.text.clone());
        braid_log::show("info".parse().unwrap(), hear).unwrap();
    });
}
