//! The timers of queue pairs, earliest first.
//!
//! Entries are not removed when a timer is cancelled or moved. An entry whose time differs from the
//! queue pair's present timer is stale and is ignored when it fires.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use braid_wire::Time;

/// Invariant: `first` is the earliest time in the heap. It is a copy, so that the check made for
/// every packet does not touch the heap's memory.
#[derive(Debug)]
pub(super) struct Timers {
    first: Time,
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Timers {
    pub(super) const fn new() -> Self {
        Timers { first: Time::FAR_FUTURE, heap: BinaryHeap::new() }
    }

    /// Returns the earliest time; [`Time::FAR_FUTURE`] if there is none.
    pub(super) fn first(&self) -> Time {
        self.first
    }

    pub(super) fn push(&mut self, at: Time, index: u32) {
        self.heap.push(Reverse((at, index)));
        self.first = self.first.min(at);
    }

    /// Removes the earliest timer that has expired, and returns its time and index.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Time, u32)> {
        if self.first > now {
            return None;
        }
        let due = self.heap.pop();
        self.look();
        due.map(|Reverse(due)| due)
    }

    fn look(&mut self) {
        self.first = self.heap.peek().map_or(Time::FAR_FUTURE, |Reverse((at, _))| *at);
    }
}
