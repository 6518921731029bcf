//! How other threads reach a worker without its lock.

use std::io;

use crate::doorbell::Doorbells;
use crate::event_fd::EventFd;
use crate::wake::Sleepers;

/// Doorbells to tell the worker of work, and the threads that drive it and sleep.
pub(crate) struct Signals {
    doorbells: Doorbells,
    sleepers: Sleepers<EventFd>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals { doorbells: Doorbells::new(), sleepers: Sleepers::new()? })
    }

    /// Queue pair `index` has something in its rings. Whoever rings first for it wakes who sleeps.
    pub(crate) fn ring(&self, index: usize) {
        if self.doorbells.ring(index) {
            self.wake();
        }
    }

    /// Wakes who sleeps, for what the caller has just changed.
    pub(crate) fn wake(&self) {
        self.sleepers.wake();
    }

    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    pub(crate) fn sleepers(&self) -> &Sleepers<EventFd> {
        &self.sleepers
    }
}
