//! The timers of queue pairs, the earliest first.
//!
//! No entry is taken out before its time. An entry that differs from the time its queue pair is set
//! to is ignored, because an earlier one came or another queue pair has the place now.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use braid_wire::Time;

/// Invariant: `first` is the earliest of the heap. Every packet asks for it, and finds it here
/// without a look at the heap's memory.
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

    /// The next instant that has come, and who was to be looked at then.
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
