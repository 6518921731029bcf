//! The part of shared receive queues that queue pairs hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid::SharedReceiveQueue;

use crate::domain::Domain;

/// The part of a shared receive queue that queue pairs hold.
pub(crate) struct SharedReceives {
    pub(crate) engine: SharedReceiveQueue,
    pub(super) domain: Arc<Domain>,
    users: AtomicU32,
}

impl SharedReceives {
    pub(super) fn new(engine: SharedReceiveQueue, domain: Arc<Domain>) -> Self {
        SharedReceives { engine, domain, users: AtomicU32::new(0) }
    }

    /// A queue pair takes receives from the queue from now on.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Self> {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    pub(crate) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }
}
