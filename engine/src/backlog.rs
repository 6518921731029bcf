//! Connection requests that wait for the application, and the threads that wait for them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use braid_transport::{Backlog as Waiting, Request};
use braid_wire::Time;

use crate::clock::Clock;

/// Says by its private data whether a connection is wanted.
pub(crate) type Wanted = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

pub(crate) struct Backlog {
    wanted: Wanted,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Backlog {
    pub(crate) fn new(capacity: usize, wanted: Wanted) -> Self {
        Backlog { wanted, waiting: Mutex::new(Waiting::new(capacity)), arrived: Condvar::new() }
    }

    /// Whether the application may want it.
    pub(crate) fn wants(&self, private_data: &[u8]) -> bool {
        (self.wanted)(private_data)
    }

    /// Another request waits.
    pub(crate) fn tell(&self) {
        self.arrived.notify_one();
    }

    /// The oldest request that is still wanted.
    pub(crate) fn pop(&self, now: Time) -> Option<Request> {
        self.waiting().pop(now)
    }

    /// As [`Backlog::pop`], but waits until there is one.
    pub(crate) fn wait(&self, clock: Clock, limit: Duration) -> Option<Request> {
        let start = Instant::now();
        let mut waiting = self.waiting();
        loop {
            if let Some(request) = waiting.pop(clock.now()) {
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
