//! When queue pairs want to be looked at, the earliest first.
//!
//! Nothing is taken out before its time: an instant that is not the one its queue pair is set to, because an earlier one
//! came or because another queue pair has the place now, is of no account.

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
