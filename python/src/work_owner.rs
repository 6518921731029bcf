//! The queue pairs that work requests belong to.

use std::sync::Arc;

use braid::{QpError, Status};
use pyo3::prelude::*;

use crate::engine_shared::EngineShared;

/// A queue pair with works.
pub(crate) trait WorkOwner: Send + Sync {
    /// Its engine.
    fn shared(&self) -> &Arc<EngineShared>;

    /// The number that its works carry.
    fn handle(&self) -> u64;

    /// The reason why its connection has ended.
    fn error(&self, py: Python<'_>) -> Option<QpError>;

    /// The consequence for the queue pair of a work request that has ended with `status`, as a part
    /// of a sentence, and the value of `braid.EndCause`.
    fn consequence(&self, py: Python<'_>, status: Status) -> (String, &'static str);

    /// The queue pair as Python sees it.
    fn object(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>>;
}
