//! Engines.

use std::sync::Arc;

use braid::{DEFAULT_PORT, Engine as BraidEngine};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::access::access_of;
use crate::completion_queue::CompletionQueue;
use crate::connecting::{Terms, connect};
use crate::context::Context;
use crate::engine_config;
use crate::engine_shared::EngineShared;
use crate::errors::Raise;
use crate::info::engine_counters;
use crate::listener::Listener;
use crate::log;
use crate::process::{check_end, release};
use crate::queue_pair::{QpHandle, QueuePair};
use crate::region::{PinnedRegion, Region};
use crate::roce::RocePort;
use crate::roce_ud::{RoceUd, UdHandle};
use crate::settings::Settings;

/// A user of the network: sockets, threads, and the objects made with it.
///
/// Settings, all by keyword. Times are in seconds. `None` is the default.
///
#[doc = include_str!("engine_settings.txt")]
#[pyclass(frozen, extends = Context, module = "braid", weakref)]
pub(crate) struct Engine {
    shared: Arc<EngineShared>,
}

impl Engine {
    pub(crate) fn shared(&self) -> &Arc<EngineShared> {
        &self.shared
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(
        signature = (**settings),
        text_signature = "(*, bind='[::]:0', second_addr=None, rails=(), \
            rail_policy='least-loaded', threads=1, paths=16, lb='adaptive', quantum=None, \
            destination_groups=None, discover=False, \
            mtu=None, crc=None, key_file=None, allowed_keys=None, security=None, \
            receive_buffer=8388608, seed=None, spin=5e-05, ping_interval=0.5, peer_timeout=3.0, \
            linger=0.5, metrics=None, datapath='udp', device=None, device_port=1, \
            gid_index=None, service='uc', fault_drop=0.0, fault_reorder=0.0, \
            fault_duplicate=0.0, fault_corrupt=0.0, fault_delay=0.0, fault_seed=0)"
    )]
    fn new(
        py: Python<'_>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = Settings::new(py, "Engine", settings)?;
        let config = engine_config::read(py, settings)?;
        check_end()?;
        log::begin(py)?;
        let engine = release(py, || BraidEngine::new(config)).raise(py, "EngineError")?;
        let shared = EngineShared::new(engine).raise(py, "EngineError")?;
        Ok(Context::of(Engine { shared }))
    }

    /// The address to which peers connect, such as `127.0.0.1:4791`.
    #[getter]
    fn address(&self) -> &str {
        self.shared.address()
    }

    /// Whether the engine is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Registers the memory of a bytearray, a memoryview, a NumPy array, a torch tensor, or another
    /// object with a writable buffer. The object cannot be resized until the region is closed.
    /// Arrays of GPUs (tensors of torch, CuPy, and others with `__cuda_array_interface__`) must
    /// keep their memory until then, and their stream's work ends first. `access` is what work and
    /// peers may do, of `Access`. 15: everything.
    #[pyo3(signature = (buffer, access=15), text_signature = "($self, buffer, access=15)")]
    fn register(&self, buffer: &Bound<'_, PyAny>, access: i64) -> PyResult<Py<Region>> {
        let py = buffer.py();
        let access = access_of(py, access)?;
        let parts = self.shared.parts(py)?;
        let pinned = PinnedRegion::register(buffer, &parts.pd, access, &self.shared.children)?;
        Region::new(py, pinned)
    }

    /// Listens for connections. Up to `backlog` requests wait to be accepted.
    #[pyo3(signature = (backlog=64))]
    fn listen(&self, py: Python<'_>, backlog: usize) -> PyResult<Py<Listener>> {
        Listener::new(py, &self.shared, backlog)
    }

    /// Creates a queue pair, to be connected by `QueuePair.connect` or `ConnectionRequest.accept`.
    ///
    /// Settings, all by keyword. Times are in seconds.
    ///
    #[doc = include_str!("queue_pair_settings.txt")]
    #[pyo3(
        signature = (**settings),
        text_signature = "($self, *, max_send_wr=128, max_recv_wr=512, max_sge=16, \
            max_inline=256, access=15, window=4096, max_rd_atomic=128, \
            retry_timeout=None, rnr_retry=None, rnr_delay=0.0001, min_rto=0.004, max_rto=0.3, \
            recovery='fifo-path', reorder_threshold=48, ask_every=32, reply_hold=5e-05, \
            reply_wait=0.0, cc='cubic', traffic_class=0)"
    )]
    fn create_qp(
        &self,
        py: Python<'_>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<QueuePair>> {
        let settings = Settings::new(py, "Engine.create_qp", settings)?;
        QueuePair::new(py, QpHandle::create(py, &self.shared, settings)?)
    }

    /// This engine's end of RoCEv2 connections to the peer at `gid`, which receives at UDP port
    /// `port`. If that is 4791 and the engine receives elsewhere, it opens port 4791, too.
    #[pyo3(signature = (gid, port=DEFAULT_PORT))]
    fn roce_port(&self, py: Python<'_>, gid: &str, port: u16) -> PyResult<RocePort> {
        RocePort::of(py, &self.shared, gid, port)
    }

    /// Opens a queue pair for datagrams over plain RoCEv2 (UD): `number` and `q_key` are what its
    /// peers send to. If `port` is 4791, the UDP port of RoCEv2, it receives there, otherwise at
    /// the engine's address, to which only other engines can send. The engine has to be bound to
    /// one address. RoCEv2 protects nothing.
    #[pyo3(
        signature = (number, q_key, **settings),
        text_signature = "($self, number, q_key, *, port=4791, psn=0, max_send_wr=256, \
            max_recv_wr=512, max_sge=16)"
    )]
    fn roce_ud(
        &self,
        py: Python<'_>,
        number: u32,
        q_key: u32,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<RoceUd>> {
        let settings = Settings::new(py, "Engine.roce_ud", settings)?;
        RoceUd::new(py, UdHandle::create(py, &self.shared, (number, q_key), settings)?)
    }

    /// Connects a new queue pair to the listener at `address`, such as `192.0.2.1:4791` or a host
    /// name. Takes the settings of `create_qp`, too. The peer's application gets `private_data`, at
    /// most 512 bytes, and answers with `QueuePair.private_data`.
    #[pyo3(
        signature = (address, **settings),
        text_signature = "($self, address, *, private_data=b'', timeout=10.0, **settings)"
    )]
    fn connect(
        &self,
        py: Python<'_>,
        address: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<QueuePair>> {
        let mut settings = Settings::new(py, "Engine.connect", settings)?;
        let terms = Terms::read(&mut settings)?;
        let qp = QpHandle::create(py, &self.shared, settings)?;
        // A queue pair that is dropped releases everything.
        connect(py, &qp, address, &terms)?;
        QueuePair::new(py, qp)
    }

    /// Connects as `connect` does, for asyncio.
    #[pyo3(
        signature = (*arguments, **settings),
        text_signature = "($self, address, *, private_data=b'', timeout=10.0, **settings)"
    )]
    fn connect_async<'py>(
        slf: Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let connect = slf.py().import("braid._asyncio")?.getattr("connect")?;
        let mut all = vec![slf.into_any()];
        all.extend(arguments.iter());
        connect.call(PyTuple::new(connect.py(), all)?, settings)
    }

    /// Creates a queue of works that are taken in the order of their ends.
    fn completion_queue(&self, py: Python<'_>) -> PyResult<CompletionQueue> {
        self.shared.parts(py)?;
        Ok(CompletionQueue::new(&self.shared))
    }

    /// Sends posted work and takes arrived packets, if `threads` is 0. Returns whether there was
    /// anything to do.
    fn progress(&self, py: Python<'_>) -> PyResult<bool> {
        let parts = self.shared.parts(py)?;
        Ok(release(py, || parts.engine.progress()))
    }

    /// The degradations of all connections: what each does without, why, and the remedy.
    fn degradations(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let parts = self.shared.parts(py)?;
        let metrics = release(py, || parts.engine.metrics());
        let all = metrics.queue_pairs.iter().flat_map(|qp| &qp.degradations);
        let mut texts: Vec<String> = all.map(ToString::to_string).collect();
        texts.sort();
        texts.dedup();
        Ok(texts)
    }

    /// The counters since the engine was created.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = self.shared.parts(py)?;
        let counters = release(py, || parts.engine.counters());
        engine_counters(py, &counters)
    }

    /// Closes the engine and everything made with it. Peers are told. Unfinished work fails.
    fn close(&self, py: Python<'_>) {
        self.shared.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<braid.Engine at {}{state}>", self.shared.address())
    }
}
