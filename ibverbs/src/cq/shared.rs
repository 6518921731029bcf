//! The part of completion queues that queue pairs hold.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::IBV_EVENT_CQ_ERR;

use crate::async_events::Element;
use crate::resets::Resets;
use crate::running::Running;

/// The part of a completion queue that queue pairs hold.
pub(crate) struct CompletionQueue {
    pub(crate) engine: braid::CompletionQueue,
    pub(crate) running: Arc<Running>,
    pub(crate) resets: Resets,
    /// The program's name of the queue. `None`: the queue is being destroyed.
    handle: Mutex<Option<Element>>,
    /// Queue pairs whose completions come here.
    users: AtomicU32,
}

// SAFETY: the pointer in `handle` is only compared, and handed to the program, while the object
// exists.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    pub(super) fn new(engine: braid::CompletionQueue, running: Arc<Running>) -> Self {
        let (resets, handle, users) = (Resets::default(), Mutex::default(), AtomicU32::new(0));
        CompletionQueue { engine, running, resets, handle, users }
    }

    /// A queue pair uses the queue from now on.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Self> {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    /// A queue pair does not use the queue any more.
    pub(crate) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Reports an overrun to the program, unless the queue is being destroyed.
    pub(crate) fn overran(&self) {
        let handle = self.handle();
        if let Some(element) = handle.filter(|_| self.engine.has_overrun()) {
            self.running.events.push(IBV_EVENT_CQ_ERR, element);
        }
    }

    pub(super) fn set_handle(&self, handle: Option<Element>) {
        *self.handle() = handle;
    }

    /// The lock keeps the queue from being destroyed while an event about it is reported.
    fn handle(&self) -> MutexGuard<'_, Option<Element>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
