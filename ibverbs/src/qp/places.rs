//! Places in a send queue.
//!
//! A send takes a place when it is posted. As in drivers of NICs, the place is free once the
//! program has polled the completion of the send or, if it has none, that of a later send. So a
//! program that posts until `ENOMEM` does not overrun a completion queue that is as large as its
//! queues together.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid::PostError;

pub(crate) struct Places {
    capacity: u32,
    posted: Mutex<Posted>,
}

/// Invariant: `taken` is the sum of `signalled` and `rest`.
#[derive(Default)]
struct Posted {
    taken: u32,
    /// The number of places that each signalled send frees: its own, and those of the unsignalled
    /// sends before it.
    signalled: VecDeque<u32>,
    /// Unsignalled sends that no signalled one has followed.
    rest: u32,
}

impl Places {
    pub(super) fn new(capacity: u32) -> Self {
        Places { capacity, posted: Mutex::default() }
    }

    /// Takes a place for a send that is about to be posted. Threads that post to one queue at the
    /// same time may count each other's unsignalled sends, which does not change the sum.
    ///
    /// # Errors
    /// `QueueFull`.
    pub(crate) fn take(&self, signalled: bool) -> Result<(), PostError> {
        let (capacity, mut posted) = (self.capacity, self.posted());
        if posted.taken == capacity {
            return Err(PostError::QueueFull { capacity, queue: "send" });
        }
        posted.taken += 1;
        posted.rest += 1;
        if signalled {
            let frees = std::mem::take(&mut posted.rest);
            posted.signalled.push_back(frees);
        }
        Ok(())
    }

    /// Gives the latest place back, because the send was not posted.
    pub(crate) fn give_back(&self, signalled: bool) {
        let mut posted = self.posted();
        if signalled && let Some(frees) = posted.signalled.pop_back() {
            posted.rest += frees;
        }
        posted.free_rest(1);
    }

    /// Frees the places of a send whose completion the program has polled. In ERR, unsignalled
    /// sends have completions too: each frees one place if no signalled send is left.
    pub(crate) fn polled(&self) {
        let mut posted = self.posted();
        match posted.signalled.pop_front() {
            Some(frees) => posted.taken -= frees,
            None => posted.free_rest(1),
        }
    }

    /// Frees all places.
    pub(super) fn clear(&self) {
        *self.posted() = Posted::default();
    }

    /// The number of free places.
    pub(crate) fn free(&self) -> u32 {
        self.capacity - self.posted().taken
    }

    /// Whether no send is outstanding from the program's point of view.
    pub(crate) fn are_all_free(&self) -> bool {
        self.posted().taken == 0
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Posted {
    fn free_rest(&mut self, count: u32) {
        let count = count.min(self.rest);
        self.rest -= count;
        self.taken -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts until the queue is full. Returns the number of posted sends.
    fn fill(places: &Places, signalled: bool) -> u32 {
        let mut count = 0;
        while places.take(signalled).is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn a_polled_completion_frees_its_place_and_those_of_unsignalled_ones_before_it() {
        let places = Places::new(8);
        for signalled in [false, false, true, true, false] {
            places.take(signalled).unwrap();
        }
        assert_eq!(places.free(), 3);
        places.polled();
        assert_eq!(places.free(), 6);
        places.polled();
        assert_eq!(places.free(), 7);
        assert_eq!((fill(&places, false), places.are_all_free()), (7, false));
    }

    #[test]
    fn a_send_that_was_not_posted_frees_its_place() {
        let places = Places::new(2);
        places.take(false).unwrap();
        for signalled in [true, false] {
            places.take(signalled).unwrap();
            places.give_back(signalled);
        }
        places.take(true).unwrap();
        places.polled();
        assert!(places.are_all_free());
    }

    #[test]
    fn flushed_ones_free_their_places_signalled_or_not() {
        let places = Places::new(4);
        for signalled in [false, true, false, false] {
            places.take(signalled).unwrap();
        }
        (0..4).for_each(|_| places.polled());
        assert!(places.are_all_free());
        assert_eq!(fill(&places, true), 4);
        places.clear();
        assert_eq!(fill(&places, true), 4);
    }
}
