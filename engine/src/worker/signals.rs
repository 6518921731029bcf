//! How other threads reach a worker without its lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::doorbell::Doorbells;
use crate::event_fd::EventFd;
use crate::wake::Sleepers;

/// Doorbells to tell the worker of work, and an event to wake it if it sleeps.
pub(crate) struct Signals {
    doorbells: Doorbells,
    sleepers: Sleepers,
    event: EventFd,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let (doorbells, sleepers) = (Doorbells::new(), Sleepers::default());
        Ok(Signals { doorbells, sleepers, event: EventFd::new()? })
    }

    /// Queue pair `index` has something in its rings.
    pub(crate) fn ring(&self, index: usize) {
        self.doorbells.ring(index);
        self.wake();
    }

    /// Wakes the worker if it sleeps, for what the caller has just changed.
    pub(crate) fn wake(&self) {
        if self.sleepers.need_waking() {
            self.event.raise();
        }
    }

    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.sleepers
    }

    /// What a sleeper listens to.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    pub(crate) fn clear_event(&self) {
        self.event.clear();
    }
}
