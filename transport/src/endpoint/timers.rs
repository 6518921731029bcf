//! When queue pairs want to be looked at: at most one instant each, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use braid_wire::Time;

/// Invariant: `first` is the earliest of the heap. Every packet asks for it, and finds it here without a look
/// at the heap's memory.
#[derive(Debug)]
pub(super) struct Timers {
    first: Time,
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Timers {
    pub(super) const fn new() -> Self {
        Timers { first: Time::FAR_FUTURE, heap: BinaryHeap::new() }
    }

    /// The earliest; [`Time::FAR_FUTURE`]: there is none.
    pub(super) fn first(&self) -> Time {
        self.first
    }

    pub(super) fn push(&mut self, at: Time, index: u32) {
        self.heap.push(Reverse((at, index)));
        self.first = self.first.min(at);
    }

    /// The next queue pair whose time has come.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        if self.first > now {
            return None;
        }
        let due = self.heap.pop();
        self.look();
        due.map(|Reverse((_, index))| index)
    }

    /// Forgets a queue pair.
    pub(super) fn remove(&mut self, index: u32) {
        self.heap.retain(|Reverse((_, other))| *other != index);
        self.look();
    }

    fn look(&mut self) {
        self.first = self.heap.peek().map_or(Time::FAR_FUTURE, |Reverse((at, _))| *at);
    }
}
