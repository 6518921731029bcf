//! The threads of connections and listeners.

use super::events::EventKind;
use super::id::IdShared;
use crate::errno::Errno;
use crate::messages::Link;
use crate::threads;

/// Runs `body` in a thread of its own.
///
/// # Errors
/// `ENOMEM`: the system has no thread.
pub(super) fn run(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    threads::spawn(name, body).map(drop).map_err(|_| Errno::NO_MEMORY)
}

/// Waits until either end has closed, and reports `RDMA_CM_EVENT_DISCONNECTED`.
pub(super) fn wait_for_end(shared: &IdShared, link: &Link) {
    // The ends send no more messages. An error ends the connection as well.
    while link.recv().is_ok() {}
    shared.report(EventKind::Disconnected, 0, None);
}
