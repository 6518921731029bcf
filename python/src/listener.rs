//! Listeners and connection requests.

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use braid::{ConnectionRequest as Request, Listener as BraidListener};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::context::Context;
use crate::engine_shared::EngineShared;
use crate::errors::{Raise, error};
use crate::process::{Waiting, release};
use crate::queue_pair::{QpHandle, QueuePair};
use crate::settings::Settings;
use crate::slot::{Closable, Slot, lock};

struct OpenListener(Slot<BraidListener>);

impl Closable for OpenListener {
    fn close(&self, py: Python<'_>) {
        self.0.close(py, |_| ());
    }
}

/// A listener for connections to the engine's address.
#[pyclass(frozen, extends = Context, module = "braid", weakref)]
pub(crate) struct Listener {
    shared: Arc<EngineShared>,
    listener: Arc<OpenListener>,
}

impl Listener {
    pub(crate) fn new(
        py: Python<'_>,
        shared: &Arc<EngineShared>,
        backlog: usize,
    ) -> PyResult<Py<Self>> {
        let parts = shared.parts(py)?;
        let listener = release(py, || parts.engine.listen(backlog)).raise(py, "EngineError")?;
        let listener = Arc::new(OpenListener(Slot::new("listener", listener)));
        if !shared.children.add(&listener) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        Context::create(py, Listener { shared: shared.clone(), listener })
    }
}

#[pymethods]
impl Listener {
    /// The address of the listener.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.listener.0.get(py)?.local_addr().to_string())
    }

    /// Waits for a connection request. Raises `WaitTimeoutError` after `timeout` seconds. `None`:
    /// waits as long as it takes.
    #[pyo3(signature = (timeout=None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<ConnectionRequest> {
        let waiting = Waiting::begin(py, timeout)?;
        loop {
            let slice = waiting.slice();
            let listener = self.listener.0.get(py)?;
            let request = release(py, || listener.accept(slice));
            drop(listener);
            if let Some(request) = request {
                return ConnectionRequest::new(py, &self.shared, request);
            }
            if waiting.is_over(py)? {
                let text = format!("nobody came within {} s", timeout.unwrap_or_default());
                return Err(error(py, "WaitTimeoutError", text));
            }
        }
    }

    /// Waits for a connection request as `accept` does, for asyncio.
    fn accept_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("braid._asyncio")?.call_method1("accept", (slf,))
    }

    /// The next connection request, without waiting. `None`: there is none.
    fn _poll(&self, py: Python<'_>) -> PyResult<Option<ConnectionRequest>> {
        let listener = self.listener.0.get(py)?;
        let request = release(py, || listener.accept(Duration::ZERO));
        request.map(|request| ConnectionRequest::new(py, &self.shared, request)).transpose()
    }

    /// A descriptor that is readable while requests wait.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.listener.0.get(py)?.as_raw_fd())
    }

    /// Rejects waiting requests and listens no more. Accepted connections stay.
    fn close(&self, py: Python<'_>) {
        self.listener.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.listener.0.is_closed() { " (closed)" } else { "" };
        format!("<braid.Listener{state}>")
    }
}

/// A request until it is answered.
struct WaitingRequest(Slot<Mutex<Option<Request>>>);

impl Closable for WaitingRequest {
    fn close(&self, py: Python<'_>) {
        self.0.close(py, |_| ());
    }
}

/// A peer's request to connect. Dropping it rejects it.
#[pyclass(frozen, module = "braid")]
pub(crate) struct ConnectionRequest {
    shared: Arc<EngineShared>,
    request: Arc<WaitingRequest>,
    private_data: Vec<u8>,
    peer_address: String,
    peer_name: Option<String>,
}

impl ConnectionRequest {
    fn new(py: Python<'_>, shared: &Arc<EngineShared>, request: Request) -> PyResult<Self> {
        let private_data = request.private_data().to_vec();
        let peer_address = request.peer_addr().to_string();
        let peer_name = request.peer_name().map(str::to_owned);
        let request = Slot::new("connection request", Mutex::new(Some(request)));
        let request = Arc::new(WaitingRequest(request));
        if !shared.children.add(&request) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        let shared = shared.clone();
        Ok(ConnectionRequest { shared, request, private_data, peer_address, peer_name })
    }

    fn take(&self, py: Python<'_>) -> PyResult<Request> {
        let request = self.request.0.get(py)?;
        let taken = lock(&request).take();
        let text = "the connection request was accepted or rejected before";
        taken.ok_or_else(|| error(py, "ClosedError", text))
    }
}

#[pymethods]
impl ConnectionRequest {
    /// The private data of the peer's application.
    #[getter]
    fn private_data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.private_data)
    }

    /// The address of the peer.
    #[getter]
    fn peer_address(&self) -> &str {
        &self.peer_address
    }

    /// The peer's name in the list of allowed keys. `None`: keys are not static.
    #[getter]
    fn peer_name(&self) -> Option<&str> {
        self.peer_name.as_deref()
    }

    /// Connects a queue pair with the peer. Takes the settings of `Engine.create_qp`, or a queue
    /// pair `qp`, into which receives can be posted before. The peer's application gets
    /// `private_data`, at most 512 bytes.
    #[pyo3(
        signature = (**settings),
        text_signature = "($self, *, private_data=b'', qp=None, **settings)"
    )]
    fn accept(
        &self,
        py: Python<'_>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<QueuePair>> {
        let mut settings = Settings::new(py, "ConnectionRequest.accept", settings)?;
        let answer = settings.bytes("private_data")?;
        let handle = match settings.object("qp")? {
            Some(qp) => {
                settings.finish()?;
                let qp = qp.cast::<QueuePair>().map_err(|_| {
                    let class = qp.get_type();
                    let text = format!("`qp` is {class}; it takes a QueuePair");
                    pyo3::exceptions::PyTypeError::new_err(text)
                })?;
                qp.get().handle().clone()
            }
            None => QpHandle::create(py, &self.shared, settings)?,
        };
        let (request, qp) = (self.take(py)?, handle.qp(py)?);
        release(py, || request.accept(&qp, &answer)).raise(py, "ConnectError")?;
        handle.set_private_data(self.private_data.clone());
        QueuePair::new(py, handle)
    }

    /// Rejects the request. The peer's `connect` fails.
    fn reject(&self, py: Python<'_>) -> PyResult<()> {
        let request = self.take(py)?;
        release(py, || request.reject());
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<braid.ConnectionRequest of {}>", self.peer_address)
    }
}
