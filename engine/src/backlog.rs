//! The connection requests that wait for the application, and the threads that wait for requests.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use braid_transport::{Backlog as Waiting, Request};
use braid_wire::Time;

use crate::clock::Clock;
use crate::event_fd::EventFd;
use crate::wake::Event;

/// Decides by its private data whether a connection is wanted.
pub(crate) type Wanted = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Invariant: whenever `waiting` is unlocked and not empty, `event` is readable. `is_raised` tracks
/// that and changes under the same lock only.
pub(crate) struct Backlog {
    wanted: Wanted,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    event: EventFd,
    is_raised: AtomicBool,
}

impl Backlog {
    pub(crate) fn new(capacity: usize, wanted: Wanted) -> io::Result<Self> {
        Ok(Backlog {
            wanted,
            waiting: Mutex::new(Waiting::new(capacity)),
            arrived: Condvar::new(),
            event: EventFd::new()?,
            is_raised: AtomicBool::new(false),
        })
    }

    /// Readable while requests wait.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    /// Whether the application may want this request.
    pub(crate) fn wants(&self, private_data: &[u8]) -> bool {
        (self.wanted)(private_data)
    }

    /// Announces another waiting request. The caller holds the lock under which the request was
    /// added.
    pub(crate) fn announce(&self) {
        self.arrived.notify_one();
        if !self.is_raised.swap(true, Ordering::Relaxed) {
            self.event.raise();
        }
    }

    fn take(&self, waiting: &mut Waiting, now: Time) -> Option<Request> {
        let taken = waiting.pop(now);
        if taken.is_none() && self.is_raised.swap(false, Ordering::Relaxed) {
            self.event.clear();
        }
        taken
    }

    /// Takes the oldest request that is still valid.
    pub(crate) fn pop(&self, now: Time) -> Option<Request> {
        self.take(&mut self.waiting(), now)
    }

    /// Waits for a request, see [`Backlog::pop`].
    pub(crate) fn wait(&self, clock: Clock, limit: Duration) -> Option<Request> {
        let start = Instant::now();
        let mut waiting = self.waiting();
        loop {
            if let Some(request) = self.take(&mut waiting, clock.now()) {
                return Some(request);
            }
            let left = limit.checked_sub(start.elapsed())?;
            let woken = self.arrived.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
