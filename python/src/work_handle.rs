//! Works as Python sees them.

use std::sync::Arc;

use braid::{Completion, Status, Work};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{error, error_with, status_name};
use crate::work::{Outcome, Waiter, WorkState};
use crate::work_owner::WorkOwner;

/// A posted work request: `wait()` for it, or `await` it.
#[pyclass(frozen, module = "braid", name = "Work", weakref)]
pub(crate) struct WorkHandle {
    state: Arc<WorkState>,
    owner: Arc<dyn WorkOwner>,
}

impl WorkHandle {
    pub(crate) fn new(state: Arc<WorkState>, owner: Arc<dyn WorkOwner>) -> Self {
        WorkHandle { state, owner }
    }

    fn value<'py>(&self, py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyAny>> {
        match outcome {
            Outcome::Completed(done, value) if done.status == Status::Success => {
                value_of(py, &done, value)
            }
            Outcome::Completed(done, _) => Err(self.failure(py, done.status)),
            Outcome::Closed => Err(self.failure(py, Status::Flushed)),
            Outcome::Lost => {
                let text = "the completion queue overran and has lost the completion; wait for \
                     work more often";
                Err(error(py, "BraidError", text))
            }
        }
    }

    /// The exception for a failed work request, with the cause that ended its queue pair.
    fn failure(&self, py: Python<'_>, status: Status) -> PyErr {
        let operation = operation(self.state.kind);
        let (consequence, cause) = self.owner.consequence(py, status);
        let text = format!("{operation}: {status}; {consequence}");
        let arguments = PyDict::new(py);
        let filled = arguments
            .set_item("operation", operation)
            .and_then(|()| arguments.set_item("status", status_name(status)))
            .and_then(|()| arguments.set_item("cause", cause));
        match filled {
            Ok(()) => error_with(py, "WorkError", text, &arguments),
            Err(failure) => failure,
        }
    }
}

/// The name of an operation.
fn operation(kind: Work) -> &'static str {
    match kind {
        Work::Send => "SEND",
        Work::Write => "WRITE",
        Work::Read => "READ",
        Work::CompareSwap => "COMPARE_SWAP",
        Work::FetchAdd => "FETCH_ADD",
        Work::Recv | Work::RecvWriteImm => "RECV",
    }
}

fn value_of<'py>(py: Python<'py>, done: &Completion, earlier: u64) -> PyResult<Bound<'py, PyAny>> {
    match done.work {
        Work::CompareSwap | Work::FetchAdd => earlier.into_bound_py_any(py),
        Work::Recv | Work::RecvWriteImm => {
            let is_write = done.work == Work::RecvWriteImm;
            let source = Some(done.source.get()).filter(|source| *source != 0);
            let message = Message { length: done.len, imm: done.imm, is_write, source };
            Bound::new(py, message).map(Bound::into_any)
        }
        Work::Send | Work::Write | Work::Read => done.len.into_bound_py_any(py),
    }
}

#[pymethods]
impl WorkHandle {
    /// Waits until the work has ended, and returns its result: bytes of a SEND, WRITE or READ, the
    /// `Message` of a receive, or the earlier value of an atomic. Raises `WorkError` if it failed,
    /// and `WaitTimeoutError` after `timeout` seconds. `None`: waits as long as it takes.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        if !self.state.is_done() {
            // Closed or forked objects fail here, before a wait that nobody would end.
            let parts = self.owner.shared().parts(py)?;
            let is_ready = || self.state.is_done();
            if !parts.driver.wait(py, timeout, &is_ready)? {
                let text = format!(
                    "{} has not ended after {} s; it goes on",
                    operation(self.state.kind),
                    timeout.unwrap_or_default()
                );
                return Err(error(py, "WaitTimeoutError", text));
            }
        }
        self.result(py)
    }

    /// The result of ended work, as `wait` returns it.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.state.outcome() {
            Some(outcome) => self.value(py, outcome),
            None => {
                let text = "the work has not ended; wait for it, or await it";
                Err(error(py, "PendingError", text))
            }
        }
    }

    /// Whether the work has ended. Looks for completions.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.state.is_done() {
            self.owner.shared().parts(py)?.driver.take_completions(py, None)?;
        }
        Ok(self.state.is_done())
    }

    /// The queue pair: a `QueuePair` or a `RoceUd`.
    #[getter]
    fn queue_pair(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.owner.clone().object(py)
    }

    /// The operation, such as `WRITE`.
    #[getter]
    fn operation(&self) -> &'static str {
        operation(self.state.kind)
    }

    /// Resolves `future` of the event loop `home` at the end, for `braid._asyncio`. Returns whether
    /// the work has ended already.
    fn _watch(&self, home: &Bound<'_, PyAny>, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = home.py();
        if self.state.is_done() {
            return Ok(true);
        }
        let parts = self.owner.shared().parts(py)?;
        let waiter = Waiter { home: home.clone().unbind(), future: future.clone().unbind() };
        let waits = parts.driver.watch(py, waiter, |waiter| self.state.watch(waiter))?;
        Ok(!waits)
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("braid._asyncio")?.call_method1("await_work", (slf,))
    }

    fn __repr__(&self) -> String {
        let state = match self.state.outcome() {
            None => "in flight",
            Some(outcome) if outcome.is_success() => "done",
            Some(_) => "failed",
        };
        format!("<braid.Work {} {state}>", operation(self.state.kind))
    }
}

/// A received message.
#[pyclass(frozen, module = "braid", get_all)]
pub(crate) struct Message {
    /// Bytes of the message. 0 for a WRITE with immediate data. A datagram has 40 bytes of network
    /// header in front of it, which count.
    length: u32,
    /// The immediate data.
    imm: Option<u32>,
    /// Whether a WRITE with immediate data completed the receive.
    is_write: bool,
    /// The number of the queue pair that has sent a datagram. `None`: the message is none.
    source: Option<u32>,
}

#[pymethods]
impl Message {
    fn __repr__(&self) -> String {
        let imm = self.imm.map_or(String::new(), |imm| format!(", imm={imm}"));
        format!("<braid.Message of {} bytes{imm}>", self.length)
    }
}
