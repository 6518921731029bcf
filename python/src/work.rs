//! Work requests in flight, and their outcomes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use braid::{Completion, Status, Work as Kind};
use pyo3::prelude::*;

use crate::queue_state::QueueState;
use crate::region::PinnedRegion;
use crate::scratch::ScratchWord;
use crate::slot::lock;

/// The number of the next queue pair.
static NEXT_HANDLE: AtomicU64 = AtomicU64::new(0);

/// Returns the number of a new queue pair, which its works carry.
pub(crate) fn next_handle() -> u64 {
    NEXT_HANDLE.fetch_add(1, Ordering::Relaxed)
}

/// The end of a work request.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// Its completion, and the earlier value of an atomic.
    Completed(Completion, u64),
    /// Its queue pair or engine was closed before.
    Closed,
    /// Its completion was lost with others, because the completion queue overran.
    Lost,
}

impl Outcome {
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Outcome::Completed(done, _) if done.status == Status::Success)
    }
}

/// A future of asyncio that waits for something to end.
pub(crate) struct Waiter {
    /// The event loop of the future.
    pub(crate) home: Py<PyAny>,
    pub(crate) future: Py<PyAny>,
}

/// The objects that a work request needs until it has ended.
#[derive(Default)]
pub(crate) struct Kept {
    /// Registered until the work has ended.
    pub(crate) regions: Vec<Arc<PinnedRegion>>,
    pub(crate) word: Option<ScratchWord>,
}

/// Consequences of ended work for the thread that has noticed the end. It carries them out without
/// locks, because they may need the interpreter.
#[derive(Default)]
pub(crate) struct Consequences {
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) kept: Vec<Kept>,
    /// The number of work requests that have ended.
    pub(crate) ended: usize,
}

/// A posted work request.
pub(crate) struct WorkState {
    pub(crate) id: u64,
    /// The number of the queue pair's handle.
    pub(crate) owner: u64,
    pub(crate) kind: Kind,
    is_done: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    outcome: Option<Outcome>,
    kept: Kept,
    waiters: Vec<Waiter>,
    queue: Option<Arc<QueueState>>,
}

impl WorkState {
    pub(crate) fn new(
        id: u64,
        owner: u64,
        kind: Kind,
        kept: Kept,
        queue: Option<Arc<QueueState>>,
    ) -> Self {
        let progress = Mutex::new(Progress { kept, queue, ..Progress::default() });
        WorkState { id, owner, kind, is_done: AtomicBool::new(false), progress }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if self.is_done() { lock(&self.progress).outcome } else { None }
    }

    /// Records the end.
    pub(crate) fn finish(&self, mut outcome: Outcome, consequences: &mut Consequences) {
        let mut progress = lock(&self.progress);
        if progress.outcome.is_some() {
            return;
        }
        let kept = std::mem::take(&mut progress.kept);
        if let (Outcome::Completed(_, value), Some(word)) = (&mut outcome, &kept.word) {
            *value = word.value();
        }
        progress.outcome = Some(outcome);
        let waiters = std::mem::take(&mut progress.waiters);
        let queue = progress.queue.take();
        self.is_done.store(true, Ordering::Release);
        drop(progress);
        consequences.ended += 1;
        consequences.waiters.extend(waiters);
        consequences.kept.push(kept);
        if let Some(queue) = queue {
            queue.on_ended(self.id, consequences);
        }
    }

    /// Adds a future to be resolved at the end. Returns it if the end has come.
    pub(crate) fn watch(&self, waiter: Waiter) -> Option<Waiter> {
        let mut progress = lock(&self.progress);
        if progress.outcome.is_some() {
            return Some(waiter);
        }
        progress.waiters.push(waiter);
        None
    }
}
