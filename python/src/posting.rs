//! Posting work requests of any queue pair.

use std::sync::Arc;

use braid::{PostError, Work};
use pyo3::prelude::*;

use crate::errors::{describe, error};
use crate::queue_state::QueueState;
use crate::work::{Kept, WorkState};
use crate::work_handle::WorkHandle;
use crate::work_owner::WorkOwner;

/// A work request to be posted.
pub(crate) struct Posting {
    pub(crate) kind: Work,
    pub(crate) kept: Kept,
    /// The queue of Python that gets the work.
    pub(crate) to: Option<Arc<QueueState>>,
}

impl Posting {
    /// Registers the work request of `owner` and posts it with its id. If the queue is full, looks
    /// for ended work and tries again.
    pub(crate) fn post(
        self,
        py: Python<'_>,
        owner: Arc<dyn WorkOwner>,
        post: impl Fn(u64) -> Result<(), PostError>,
    ) -> PyResult<Py<WorkHandle>> {
        let Posting { kind, kept, to } = self;
        let parts = owner.shared().parts(py)?;
        let driver = &parts.driver;
        if kept.regions.iter().any(|region| !region.is_of(&owner.shared().children)) {
            let text = "the region belongs to another engine or to a group; register the buffer \
                 by the engine of the queue pair";
            return Err(error(py, "PostError", text));
        }
        let id = driver.next_id();
        let state = Arc::new(WorkState::new(id, owner.handle(), kind, kept, to.clone()));
        let work = Py::new(py, WorkHandle::new(state.clone(), owner.clone()))?;
        if !driver.add(py, &state)? {
            let text = "more work is in flight than the queues hold; wait for some first";
            return Err(error(py, "PostError", text));
        }
        if let Some(queue) = &to {
            queue.add(id, work.clone_ref(py).into_any());
        }
        let Err(refused) = post(id) else { return Ok(work) };
        driver.remove(id);
        if let Some(queue) = &to {
            queue.remove(id);
        }
        let text = match owner.error(py) {
            Some(end) => format!("{refused}; it has ended: {}", describe(&end)),
            None => refused.to_string(),
        };
        Err(error(py, "PostError", text))
    }
}
