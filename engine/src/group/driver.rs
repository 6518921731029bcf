//! The thread of a group, which advances its rounds while the application computes, and the waits
//! for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::GroupError;
use super::state::State;
use crate::CompletionQueue;

/// Time that the thread waits for completions before it looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    state: Mutex<State>,
    changed: Condvar,
    cq: CompletionQueue,
}

impl Driver {
    pub(super) fn new(state: State, cq: CompletionQueue) -> Self {
        Driver { state: Mutex::new(state), changed: Condvar::new(), cq }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Each change leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until the group has ended.
    pub(super) fn run(&self) {
        while self.state().end().is_none() {
            // The queue has room for everything that is posted, so it does not overrun.
            let done = self.cq.wait(LOOK).unwrap_or_default();
            self.state().on_completions(&done);
            self.changed.notify_all();
        }
    }

    /// Waits until a round is over.
    pub(super) fn wait(&self, round: u64, within: Duration) -> Result<(), GroupError> {
        let began = Instant::now();
        let mut state = self.state();
        while !state.is_over(round)? {
            let left = within.saturating_sub(began.elapsed());
            if left.is_zero() {
                let ranks = state.waits_for(round);
                return Err(GroupError::Unfinished { round, ranks, within });
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
