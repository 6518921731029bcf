//! The signals by which other threads reach a worker without its lock.

use std::io;

use crate::doorbell::Doorbells;
use crate::event_fd::EventFd;
use crate::wake::Sleepers;

/// The doorbells for work, and the sleeping threads that drive the worker.
pub(crate) struct Signals {
    doorbells: Doorbells,
    sleepers: Sleepers<EventFd>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals { doorbells: Doorbells::new(), sleepers: Sleepers::new()? })
    }

    /// Announces work in the rings of queue pair `index`. The first ring wakes sleeping threads.
    pub(crate) fn ring(&self, index: usize) {
        if self.doorbells.ring(index) {
            self.wake();
        }
    }

    /// Wakes sleeping threads for a change that the caller has just made.
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
