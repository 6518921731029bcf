//! Queues of works that Python takes in the order of their ends.

use std::sync::Arc;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::engine_shared::EngineShared;
use crate::errors::error;
use crate::queue_state::{Next, QueueState};
use crate::work::Waiter;

/// Works that were posted with `to=` this queue, taken in the order of their ends. Iterating ends
/// when nothing is in flight.
#[pyclass(frozen, module = "braid", weakref)]
pub(crate) struct CompletionQueue {
    shared: Arc<EngineShared>,
    state: Arc<QueueState>,
}

impl CompletionQueue {
    pub(crate) fn new(shared: &Arc<EngineShared>) -> Self {
        CompletionQueue { shared: shared.clone(), state: Arc::default() }
    }

    pub(crate) fn state(&self) -> &Arc<QueueState> {
        &self.state
    }

    /// The next ended work. `None`: nothing is in flight.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            match self.state.next() {
                Next::Ended(work) => return Ok(Some(work)),
                Next::Nothing => return Ok(None),
                Next::Later => {}
            }
            let parts = self.shared.parts(py)?;
            if !parts.driver.wait(py, timeout, &|| self.state.is_ready())? {
                let (waiting, _) = self.state.len();
                let text = format!("{waiting} works are still in flight; they go on");
                return Err(error(py, "WaitTimeoutError", text));
            }
        }
    }
}

#[pymethods]
impl CompletionQueue {
    /// Waits for the next work to end, and returns it. Its `result()` raises if it has failed.
    /// Raises `WaitTimeoutError` after `timeout` seconds, and `PendingError` if nothing is in
    /// flight.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let text = "nothing is in flight; post work with to= this queue first";
        self.next(py, timeout)?.ok_or_else(|| error(py, "PendingError", text))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.next(py, None)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("braid._asyncio")?.call_method1("next_work", (slf,))
    }

    /// Takes an ended work without waiting, for `braid._asyncio`. Returns whether work is in
    /// flight, and the ended work.
    fn _take(&self) -> (bool, Option<Py<PyAny>>) {
        match self.state.next() {
            Next::Ended(work) => (true, Some(work)),
            Next::Later => (true, None),
            Next::Nothing => (false, None),
        }
    }

    /// Resolves `future` of the event loop `home` with the next end, for `braid._asyncio`. Returns
    /// whether there is no need to wait.
    fn _watch(&self, home: &Bound<'_, PyAny>, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = home.py();
        let parts = self.shared.parts(py)?;
        let waiter = Waiter { home: home.clone().unbind(), future: future.clone().unbind() };
        let waits = parts.driver.watch(py, waiter, |waiter| self.state.watch(waiter))?;
        Ok(!waits)
    }

    fn __len__(&self) -> usize {
        let (in_flight, ended) = self.state.len();
        in_flight + ended
    }

    fn __bool__(&self) -> bool {
        // A queue without works is a queue.
        true
    }

    fn __repr__(&self) -> String {
        let (in_flight, ended) = self.state.len();
        format!("<braid.CompletionQueue: {in_flight} in flight, {ended} ended>")
    }
}
