//! What the log of this process has said since the first test asked.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn log() -> MutexGuard<'static, Vec<String>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on.
pub(crate) fn listen_to_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hear = |record: &braid_log::Record| log().push(record.text.clone());
        braid_log::show("info".parse().unwrap(), hear).unwrap();
    });
}
