//! The time that closing communicators wait for what they have sent.
//!
//! An abort closes many communicators one after the other, and a peer that has gone confirms the
//! data of none. All that was on its way when the first of them began to wait has had its time when
//! that wait is over: the engines go on with it meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A wait, of all devices of the process: its number, and when it began.
static LATEST: Mutex<Option<(u64, Instant)>> = Mutex::new(None);
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A point between two waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Moment(u64);

impl Moment {
    /// After the latest wait has begun.
    pub(super) fn now() -> Self {
        Moment(NUMBER.load(Ordering::Relaxed))
    }
}

/// Since when what was posted at `last`, and before, is waited for: since the latest wait began, if
/// that was later. Otherwise another wait begins.
pub(super) fn waits_since(last: Moment) -> Instant {
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
