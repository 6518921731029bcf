//! Waiting for at most as many completions as C has space for.
//!
//! The engine's `wait` returns up to 64 completions. Those that do not fit are kept here for the
//! next caller. One thread at a time waits in the engine, and the others wait for it, so that no
//! thread sleeps while completions are left over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use braid::{Completion, CompletionQueue};

use crate::failure::Failure;

/// A completion queue and the completions that are left over.
pub(super) struct Turns {
    queue: CompletionQueue,
    /// Number of left-over completions, so that polling threads need not take the lock.
    left_over: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    left_over: VecDeque<Completion>,
    /// A thread waits in the engine.
    waiting: bool,
}

impl Turns {
    pub(super) fn new(queue: CompletionQueue) -> Self {
        let (left_over, state) = (AtomicUsize::new(0), Mutex::default());
        Turns { queue, left_over, state, changed: Condvar::new() }
    }

    pub(super) fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// Takes up to `max` completions, left-over ones first.
    pub(super) fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<(), Failure> {
        if self.left_over.load(Ordering::Acquire) > 0 {
            self.take_left_over(&mut self.state(), out, max);
        }
        if out.is_empty() {
            self.queue.poll(out, max)?;
        }
        Ok(())
    }

    /// Takes completions like [`Turns::poll`], but waits for the first one.
    pub(super) fn wait(
        &self,
        out: &mut Vec<Completion>,
        max: usize,
        limit: Duration,
    ) -> Result<(), Failure> {
        self.poll(out, max)?;
        let deadline = Instant::now() + limit;
        while out.is_empty() && max > 0 {
            let mut state = self.state();
            self.take_left_over(&mut state, out, max);
            let left = deadline.saturating_duration_since(Instant::now());
            if !out.is_empty() || left.is_zero() {
                break;
            }
            if state.waiting {
                let waited = self.changed.wait_timeout(state, left);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                self.wait_in_engine(state, left)?;
            }
        }
        Ok(())
    }

    /// Adds arriving completions to the left-over ones.
    fn wait_in_engine(
        &self,
        mut state: MutexGuard<'_, State>,
        limit: Duration,
    ) -> Result<(), Failure> {
        state.waiting = true;
        drop(state);
        // Also ends the turn if the engine panics. Otherwise the other threads would wait forever.
        let turn = Turn(self);
        let come = self.queue.wait(limit)?;
        let mut state = self.state();
        state.left_over.extend(come);
        self.left_over.store(state.left_over.len(), Ordering::Release);
        drop((state, turn));
        Ok(())
    }

    fn take_left_over(&self, state: &mut State, out: &mut Vec<Completion>, max: usize) {
        let count = max.min(state.left_over.len());
        out.extend(state.left_over.drain(..count));
        self.left_over.store(state.left_over.len(), Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's turn to wait in the engine.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().waiting = false;
        self.0.changed.notify_all();
    }
}
