//! A queue of posted work requests, between the threads that post and the worker.

use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::PostError;

use crate::ring::Ring;

/// The longest queue.
pub(crate) const MAX_QUEUE: u32 = 1 << 20;
/// The largest number of elements of a work request. No user needs more.
pub(crate) const MAX_SGE: usize = 256;

/// Posted work requests that the worker has not taken, and the number of those outstanding. A work
/// request is outstanding from posting until its completion is in the completion queue. An
/// unsignalled one is outstanding until it has ended.
///
/// Invariant: the ring never holds more than `outstanding`, which never exceeds the ring's
/// capacity. So a push after a successful [`WorkQueue::reserve`] succeeds.
pub(crate) struct WorkQueue<T> {
    name: &'static str,
    ring: Ring<T>,
    capacity: u32,
    outstanding: AtomicU32,
}

impl<T> WorkQueue<T> {
    /// Creates a queue for `capacity` work requests. `name` is its name in errors. A queue for none
    /// is full.
    pub(crate) fn new(name: &'static str, capacity: u32) -> Self {
        let ring = Ring::new(capacity.max(1) as usize);
        WorkQueue { name, ring, capacity, outstanding: AtomicU32::new(0) }
    }

    /// Reserves one place.
    pub(crate) fn reserve(&self) -> Result<(), PostError> {
        // On overflow the count exceeds the capacity for a moment. In that moment only posts fail
        // that would have failed just before.
        if self.outstanding.fetch_add(1, Ordering::Acquire) < self.capacity {
            return Ok(());
        }
        self.release(1);
        Err(PostError::QueueFull { capacity: self.capacity, queue: self.name })
    }

    /// Pushes a checked work request for which a place is reserved.
    pub(crate) fn push(&self, wr: T) {
        if self.ring.push(wr).is_err() {
            unreachable!("a reserved place in a {} queue is taken", self.name);
        }
    }

    /// Takes the oldest work request.
    pub(crate) fn pop(&self) -> Option<T> {
        self.ring.pop()
    }

    /// Releases the places of work requests that have ended.
    pub(crate) fn release(&self, count: u32) {
        self.outstanding.fetch_sub(count, Ordering::Release);
    }

    /// The number of work requests that the worker has not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Acquire)
    }
}
