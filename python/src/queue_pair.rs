//! Queue pairs.

use std::sync::{Arc, Mutex, OnceLock};

use braid::{
    Degradation, QpError, QpOptions, QpState, QueuePair as BraidQueuePair, RecvWr, SendWr, Status,
    Work, wr,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::connecting::{Connecting, Terms, connect};
use crate::context::Context;
use crate::engine_shared::EngineShared;
use crate::errors::{Raise, cause_name, describe, error};
use crate::info::qp_counters;
use crate::post_options::PostOptions;
use crate::posting::Posting;
use crate::process::release;
use crate::qp_config;
use crate::region::LocalMemory;
use crate::remote::RemoteRegion;
use crate::roce;
use crate::scratch::{Scratch, ScratchWord};
use crate::settings::Settings;
use crate::slot::{Closable, Slot, lock};
use crate::work::{Kept, next_handle};
use crate::work_handle::WorkHandle;
use crate::work_owner::WorkOwner;

/// The largest number of atomics of a queue pair in flight.
const MAX_ATOMICS: u32 = 4096;

/// A queue pair, which ends with its last Python object.
pub(crate) struct QpHandle {
    shared: Arc<EngineShared>,
    qp: Slot<BraidQueuePair>,
    handle: u64,
    number: u32,
    max_inline: usize,
    /// The lengths of its queues.
    room: usize,
    /// The number of words for atomics.
    words: usize,
    scratch: OnceLock<Arc<Scratch>>,
    /// The private data of the peer's application.
    private_data: Mutex<Option<Vec<u8>>>,
    /// The error at the time of its close.
    end: Mutex<Option<QpError>>,
}

impl QpHandle {
    pub(crate) fn create(
        py: Python<'_>,
        shared: &Arc<EngineShared>,
        settings: Settings<'_>,
    ) -> PyResult<Arc<Self>> {
        let parts = shared.parts(py)?;
        let cq = parts.driver.cq();
        let (options, traffic_class) = qp_config::read(py, settings, QpOptions::new(cq, cq))?;
        let (sends, recvs) = (options.config.max_send_wr, options.config.max_recv_wr);
        let max_inline = options.max_inline;
        let qp = release(py, || parts.pd.create_qp(options)).raise(py, "SettingError")?;
        qp.set_traffic_class(traffic_class);
        // The queue has room for receives from the beginning.
        qp.modify(QpState::Init).raise(py, "BraidError")?;
        let room = sends as usize + recvs as usize;
        parts.driver.add_room(room).raise(py, "BraidError")?;
        let number = qp.number().get();
        let handle = Arc::new(QpHandle {
            shared: shared.clone(),
            qp: Slot::new("queue pair", qp),
            handle: next_handle(),
            number,
            max_inline,
            room,
            words: sends.min(MAX_ATOMICS) as usize,
            scratch: OnceLock::new(),
            private_data: Mutex::default(),
            end: Mutex::default(),
        });
        if !shared.children.add(&handle) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        Ok(handle)
    }

    pub(crate) fn qp(&self, py: Python<'_>) -> PyResult<Arc<BraidQueuePair>> {
        self.qp.get(py)
    }

    pub(crate) fn max_inline(&self) -> usize {
        self.max_inline
    }

    pub(crate) fn set_private_data(&self, data: Vec<u8>) {
        *lock(&self.private_data) = Some(data);
    }

    /// Takes a word for the result of an atomic.
    pub(crate) fn word(&self, py: Python<'_>) -> PyResult<ScratchWord> {
        if self.scratch.get().is_none() {
            let parts = self.shared.parts(py)?;
            let made = Scratch::new(&parts.pd, self.words).raise(py, "RegisterError")?;
            let _ = self.scratch.set(made);
        }
        if let Some(word) = self.scratch.get().and_then(Scratch::take) {
            return Ok(word);
        }
        let text = format!("{} atomics are in flight; wait for some first", self.words);
        Err(error(py, "PostError", text))
    }

    /// The sentence on a peer that the engine reaches by another datapath only, if it is so.
    fn silence(&self, py: Python<'_>) -> Option<String> {
        let qp = self.qp.get(py).ok()?;
        let all = release(py, || qp.degradations());
        let silent = |one: &Degradation| matches!(one, Degradation::DatapathSilent { .. });
        all.into_iter().find(silent).map(|one| one.to_string())
    }

    /// Posts a request of the send queue.
    pub(crate) fn post_send(
        self: &Arc<Self>,
        py: Python<'_>,
        request: SendWr,
        (kept, inline): (Kept, Option<Vec<u8>>),
        options: PostOptions,
    ) -> PyResult<Py<WorkHandle>> {
        let qp = self.qp(py)?;
        let PostOptions { solicited, fence, to, .. } = options;
        let kind = request.op.work();
        Posting { kind, kept, to }.post(py, self.clone(), |id| {
            let request = SendWr { id, solicited, fence, ..request.clone() };
            match &inline {
                Some(data) => qp.post_send_inline(request, data),
                None => qp.post_send(request),
            }
        })
    }

    fn post_recv(
        self: &Arc<Self>,
        py: Python<'_>,
        memory: LocalMemory,
        options: PostOptions,
    ) -> PyResult<Py<WorkHandle>> {
        let qp = self.qp(py)?;
        let LocalMemory { pieces, regions, .. } = memory;
        let kept = Kept { regions, ..Kept::default() };
        Posting { kind: Work::Recv, kept, to: options.to }.post(py, self.clone(), |id| {
            qp.post_recv(RecvWr { id, sges: pieces.iter().copied().collect() })
        })
    }
}

impl WorkOwner for QpHandle {
    fn shared(&self) -> &Arc<EngineShared> {
        &self.shared
    }

    fn handle(&self) -> u64 {
        self.handle
    }

    /// The reason why the queue pair is in ERR, or was when it was closed.
    fn error(&self, py: Python<'_>) -> Option<QpError> {
        match self.qp.is_closed() {
            false => self.qp.get(py).ok().and_then(|qp| qp.error()),
            true => *lock(&self.end),
        }
    }

    fn consequence(&self, py: Python<'_>, _: Status) -> (String, &'static str) {
        let Some(end) = self.error(py) else {
            return ("the queue pair was closed".to_owned(), "application");
        };
        let mut text = format!("the queue pair ended: {}", describe(&end));
        if let Some(silence) = self.silence(py) {
            text = format!("{text}; {silence}");
        }
        (text, cause_name(end.cause))
    }

    fn object(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(QueuePair::new(py, self)?.into_any())
    }
}

impl Closable for QpHandle {
    fn close(&self, py: Python<'_>) {
        let closed = self.qp.close(py, |qp| *lock(&self.end) = qp.error());
        // An engine that was closed has ended all work.
        if let (true, Ok(parts)) = (closed, self.shared.parts(py)) {
            parts.driver.abandon(py, Some(self.handle));
            parts.driver.take_room(self.room);
        }
    }
}

impl Drop for QpHandle {
    fn drop(&mut self) {
        // Without the interpreter the queue pair ends with the handle.
        Python::try_attach(|py| self.close(py));
    }
}

/// A reliable connection.
#[pyclass(frozen, extends = Context, module = "braid", weakref)]
pub(crate) struct QueuePair {
    handle: Arc<QpHandle>,
}

impl QueuePair {
    pub(crate) fn new(py: Python<'_>, handle: Arc<QpHandle>) -> PyResult<Py<Self>> {
        Context::create(py, QueuePair { handle })
    }

    pub(crate) fn handle(&self) -> &Arc<QpHandle> {
        &self.handle
    }
}

#[pymethods]
impl QueuePair {
    /// Connects to the listener at `address`. Waits for up to `timeout` seconds.
    #[pyo3(
        signature = (address, **settings),
        text_signature = "($self, address, *, private_data=b'', timeout=10.0)"
    )]
    fn connect(
        &self,
        py: Python<'_>,
        address: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut settings = Settings::new(py, "QueuePair.connect", settings)?;
        let terms = Terms::read(&mut settings)?;
        settings.finish()?;
        connect(py, &self.handle, address, &terms)
    }

    /// Connects to queue pair `qp` of a peer that speaks plain RoCEv2: an RNIC, Soft-RoCE, or
    /// another engine. No packet is exchanged; the peer is told this end's values by other means:
    /// `number`, and what `Engine.roce_port` returns. RoCEv2 protects nothing.
    ///
    /// `gid` is an address, `recv_psn` the first PSN that the peer sends and `send_psn` that of
    /// this end. `mtu` is in bytes, the same at both ends. Default: the largest that the route
    /// carries. `dcqcn` is the rate of the link, such as '25G': it reduces the rate upon
    /// congestion.
    #[pyo3(
        signature = (gid, qp, **settings),
        text_signature = "($self, gid, qp, *, port=4791, own_qp=None, recv_psn=0, send_psn=0, \
            mtu=None, max_rd_atomic=16, ack_timeout=0.067108864, retry_count=7, window=128, \
            dcqcn=None)"
    )]
    fn connect_roce(
        &self,
        py: Python<'_>,
        gid: &str,
        qp: u32,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let settings = Settings::new(py, "QueuePair.connect_roce", settings)?;
        roce::connect(py, &*self.handle.qp(py)?, (gid, qp), settings)
    }

    /// Begins to connect, for `braid._asyncio`.
    #[pyo3(signature = (address, **settings))]
    fn _begin_connect(
        &self,
        py: Python<'_>,
        address: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Connecting> {
        let mut settings = Settings::new(py, "Engine.connect_async", settings)?;
        let terms = Terms::read(&mut settings)?;
        settings.finish()?;
        Connecting::begin(py, &self.handle, address, &terms)
    }

    /// Sends a message into a receive of the peer. `local` is a region, a part of one, a list of
    /// them, or bytes, which are copied.
    #[pyo3(
        signature = (local, **options),
        text_signature = "($self, local, *, imm=None, solicited=False, fence=False, to=None)"
    )]
    fn send(
        &self,
        local: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let py = local.py();
        let options = PostOptions::read(py, "QueuePair.send", &PostOptions::SEND, options)?;
        let memory = LocalMemory::read(local, self.handle.max_inline)?;
        let LocalMemory { pieces, regions, inline } = memory;
        let request = match options.imm {
            Some(imm) => wr::send_imm(0, pieces, imm),
            None => wr::send(0, pieces),
        };
        let kept = Kept { regions, ..Kept::default() };
        self.handle.post_send(py, request, (kept, inline), options)
    }

    /// Receives a message. `local` is a region, a part of one, or a list of them. `None` is enough
    /// for a WRITE with immediate data. The result of the work is a `Message`.
    #[pyo3(
        signature = (local=None, **options),
        text_signature = "($self, local=None, *, to=None)"
    )]
    fn recv(
        &self,
        py: Python<'_>,
        local: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let options = PostOptions::read(py, "QueuePair.recv", &PostOptions::RECV, options)?;
        let memory = local.map(LocalMemory::registered).transpose()?.unwrap_or_default();
        self.handle.post_recv(py, memory, options)
    }

    /// The peer's region with this key, as `Region.key` of the peer returns it.
    fn remote(&self, py: Python<'_>, key: &[u8]) -> PyResult<RemoteRegion> {
        RemoteRegion::new(py, &self.handle, key)
    }

    /// `length` bytes of the peer's memory at `address`, for peers without Braid, which tell their
    /// address and rkey.
    fn remote_at(&self, address: u64, rkey: u32, length: u64) -> RemoteRegion {
        RemoteRegion::at_address(&self.handle, (address, rkey, length))
    }

    /// The private data of the peer's application. `None`: not connected.
    #[getter]
    fn private_data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let data = lock(&self.handle.private_data).clone();
        data.map(|data| PyBytes::new(py, &data))
    }

    /// The number of the queue pair.
    #[getter]
    fn number(&self) -> u32 {
        self.handle.number
    }

    /// The state: INIT, RTS, SQD, ERR, or CLOSED.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        match self.handle.qp.is_closed() {
            true => Ok("CLOSED".to_owned()),
            false => Ok(self.handle.qp(py)?.state().to_string()),
        }
    }

    /// The cause of its end, a member of `EndCause`. `None`: it has not ended.
    #[getter]
    fn cause<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(end) = self.handle.error(py) else { return Ok(None) };
        let class = py.import("braid.errors")?.getattr("EndCause")?;
        class.call1((cause_name(end.cause),)).map(Some)
    }

    /// The end as a text. `None`: it has not ended.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<String> {
        self.handle.error(py).map(|end| describe(&end))
    }

    /// The receiving address of the peer. `None`: not connected.
    #[getter]
    fn peer_address(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let qp = self.handle.qp(py)?;
        Ok(release(py, || qp.remote_addr()).map(|addr| addr.to_string()))
    }

    /// The protocol that carries the packets, such as `UDP` or `TCP`. `None`: not connected.
    /// `degradations` says why it is another one than `datapath='auto'` prefers.
    #[getter]
    fn protocol(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let qp = self.handle.qp(py)?;
        Ok(release(py, || qp.protocol()))
    }

    /// The degradations of the connection: what it does without, why, and the remedy.
    fn degradations(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let qp = self.handle.qp(py)?;
        Ok(release(py, || qp.degradations()).iter().map(ToString::to_string).collect())
    }

    /// The counters since the queue pair was created.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let qp = self.handle.qp(py)?;
        let counters = release(py, || qp.counters());
        qp_counters(py, &counters)
    }

    /// Ends the connection at both ends. Unfinished work fails.
    fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        let qp = self.handle.qp(py)?;
        release(py, || qp.disconnect());
        Ok(())
    }

    /// Disconnects and releases everything. Unfinished work fails, also that of messages that the
    /// peer has not acknowledged: wait for it first.
    fn close(&self, py: Python<'_>) {
        self.handle.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.state(py).unwrap_or_else(|_| "forked".to_owned());
        format!("<braid.QueuePair {:#x} in {state}>", self.handle.number)
    }
}
