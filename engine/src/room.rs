//! Threads and descriptors that wait for room in a queue of work requests.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::event_fd::EventFd;
use crate::wake::Event;

/// The waiters for a place in a queue.
///
/// A waiter sets `is_awaited` and then looks for a place; a release makes a place free and then
/// looks at `is_awaited`. All four are sequentially consistent, so that one of the two sees the
/// other.
#[derive(Default)]
pub(crate) struct RoomWaiters {
    is_awaited: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
    event: OnceLock<EventFd>,
}

impl RoomWaiters {
    /// Waits until `reserve` finds a place, or until `deadline`. Returns whether it did.
    pub(crate) fn wait(&self, deadline: Instant, reserve: impl Fn() -> bool) -> bool {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.await_place();
            if reserve() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(lock, left);
            lock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks for a wake-up by the next place that becomes free. The caller looks for one after this.
    pub(crate) fn await_place(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Wakes the waiters, if there are any, after a place has become free.
    pub(crate) fn on_release(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.is_awaited.store(false, Ordering::SeqCst);
        // The lock excludes a thread between its look and its sleep.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        self.event.get().inspect(|event| event.raise());
    }

    /// Returns the descriptor, and creates it with the first call.
    pub(crate) fn event(&self) -> io::Result<&EventFd> {
        if let Some(event) = self.event.get() {
            return Ok(event);
        }
        let made = EventFd::new()?;
        Ok(self.event.get_or_init(|| made))
    }
}
