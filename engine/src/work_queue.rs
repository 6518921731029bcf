//! A queue of posted work requests, between the threads that post and the worker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use braid_transport::PostError;

use crate::ring::Ring;
use crate::room::RoomWaiters;

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
    room: RoomWaiters,
}

impl<T> WorkQueue<T> {
    /// Creates a queue for `capacity` work requests. `name` is its name in errors. A queue for none
    /// is full.
    pub(crate) fn new(name: &'static str, capacity: u32) -> Self {
        let ring = Ring::new(capacity.max(1) as usize);
        WorkQueue {
            name,
            ring,
            capacity,
            outstanding: AtomicU32::new(0),
            room: RoomWaiters::default(),
        }
    }

    /// Reserves one place.
    pub(crate) fn reserve(&self) -> Result<(), PostError> {
        // On overflow the count exceeds the capacity for a moment. In that moment only posts fail
        // that would have failed just before.
        if self.outstanding.fetch_add(1, Ordering::Acquire) < self.capacity {
            return Ok(());
        }
        // A waiter may have found no place because of the excess, although one was released.
        if self.outstanding.fetch_sub(1, Ordering::SeqCst) <= self.capacity {
            self.room.on_release();
        }
        Err(self.full())
    }

    /// Reserves one place, and waits for it until `deadline`.
    pub(crate) fn reserve_by(&self, deadline: Instant) -> Result<(), PostError> {
        match self.room.wait(deadline, || self.reserve_without_excess()) {
            true => Ok(()),
            false => Err(self.full()),
        }
    }

    /// The error for a queue without a place.
    pub(crate) fn full(&self) -> PostError {
        PostError::QueueFull { capacity: self.capacity, queue: self.name }
    }

    /// Reserves one place. Unlike [`WorkQueue::reserve`], a failure never counts one too many,
    /// which for a moment would hide a free place from another waiter.
    pub(crate) fn reserve_without_excess(&self) -> bool {
        let one_more = |outstanding| (outstanding < self.capacity).then_some(outstanding + 1);
        self.outstanding.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// The waiters for a place.
    pub(crate) fn room(&self) -> &RoomWaiters {
        &self.room
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
        self.outstanding.fetch_sub(count, Ordering::SeqCst);
        self.room.on_release();
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
