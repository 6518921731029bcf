//! The time that closing communicators wait for the delivery of their data.
//!
//! An abort closes many communicators in sequence, and a peer that has gone confirms no data. All
//! data in flight at the start of the first wait is given up at the end of that wait, because the
//! engines work on it in the meantime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A wait of all devices of the process: its number and its start.
static LATEST: Mutex<Option<(u64, Instant)>> = Mutex::new(None);
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A point in the sequence of waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Returns a point after the start of the latest wait.
    pub(crate) fn now() -> Self {
        Moment(NUMBER.load(Ordering::Relaxed))
    }
}

/// Returns the start of the wait that covers data posted at `last` or before: the latest wait if it
/// started later, otherwise a new one.
pub(crate) fn waits_since(last: Moment) -> Instant {
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    match *latest {
        Some((number, began)) if last < Moment(number) => began,
        _ => {
            let number = 1 + NUMBER.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            *latest = Some((number, began));
            began
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_posted_before_a_wait_began_shares_it() {
        let (first, second) = (Moment::now(), Moment::now());
        let began = waits_since(first);
        assert_eq!(waits_since(second), began);
        let later = Moment::now();
        assert!(waits_since(later) > began);
        assert!(waits_since(first) > began, "the latest wait counts");
    }
}
