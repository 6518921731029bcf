//! Datagrams over plain RoCEv2.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use braid::{
    DEFAULT_PORT, QpError, QpId, RecvWr, RoceDatagram, RoceUd as BraidRoceUd, RoceUdAddress,
    RoceUdOptions, SharedReceiveQueue, Status, Work,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::context::Context;
use crate::engine_shared::EngineShared;
use crate::errors::{Raise, error};
use crate::post_options::PostOptions;
use crate::posting::Posting;
use crate::process::release;
use crate::region::{LocalMemory, copy};
use crate::roce::within;
use crate::settings::{Settings, ip_address};
use crate::slot::{Closable, Slot};
use crate::work::{Kept, next_handle};
use crate::work_handle::WorkHandle;
use crate::work_owner::WorkOwner;

/// Bytes in front of the payload in a receive.
const HEADER: usize = braid::NETWORK_HEADER_LEN;

/// A datagram queue pair, which ends with its last Python object.
pub(crate) struct UdHandle {
    shared: Arc<EngineShared>,
    queues: Slot<Queues>,
    handle: u64,
    number: u32,
    /// The lengths of its queues.
    room: usize,
}

struct Queues {
    ud: BraidRoceUd,
    receives: SharedReceiveQueue,
}

impl UdHandle {
    pub(crate) fn create(
        py: Python<'_>,
        shared: &Arc<EngineShared>,
        (number, q_key): (u32, u32),
        mut settings: Settings<'_>,
    ) -> PyResult<Arc<Self>> {
        let parts = shared.parts(py)?;
        let id = QpId::new(within(py, "number", number)?);
        let (mut port, mut max_recv_wr, mut max_sge) = (DEFAULT_PORT, 512, 16);
        settings.number("port", &mut port)?;
        settings.number::<u32>("max_recv_wr", &mut max_recv_wr)?;
        settings.number::<u32>("max_sge", &mut max_sge)?;
        let receives = parts.pd.create_srq(max_recv_wr, max_sge as usize);
        let receives = receives.raise(py, "SettingError")?;
        let mut options = RoceUdOptions::new(id, q_key, parts.driver.cq(), &receives);
        settings.number("psn", &mut options.psn)?;
        within(py, "psn", options.psn)?;
        settings.number("max_send_wr", &mut options.max_sends)?;
        settings.finish()?;
        let room = options.max_sends as usize + max_recv_wr as usize;
        parts.driver.add_room(room).raise(py, "SettingError")?;
        let opened = release(py, || parts.engine.roce_ud(port, &options));
        let opened = opened.inspect_err(|_| parts.driver.take_room(room));
        let ud = opened.raise(py, "ConnectError")?;
        let handle = Arc::new(UdHandle {
            shared: shared.clone(),
            queues: Slot::new("datagram queue pair", Queues { ud, receives }),
            handle: next_handle(),
            number,
            room,
        });
        if !shared.children.add(&handle) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        Ok(handle)
    }
}

impl WorkOwner for UdHandle {
    fn shared(&self) -> &Arc<EngineShared> {
        &self.shared
    }

    fn handle(&self) -> u64 {
        self.handle
    }

    fn error(&self, _: Python<'_>) -> Option<QpError> {
        None
    }

    fn consequence(&self, _: Python<'_>, status: Status) -> (String, &'static str) {
        let (text, cause) = match status {
            Status::LocalLength => (
                "the datagram is lost, and the queue pair goes on; receive into 40 bytes more than \
                 the longest datagram has",
                "refused-here",
            ),
            Status::LocalProtection => (
                "the datagram is lost, and the queue pair goes on; keep the region of a receive, \
                 with Access.LOCAL_WRITE",
                "local-memory",
            ),
            _ => ("the queue pair was closed", "application"),
        };
        (text.to_owned(), cause)
    }

    fn object(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(RoceUd::new(py, self)?.into_any())
    }
}

impl Closable for UdHandle {
    fn close(&self, py: Python<'_>) {
        let closed = self.queues.close(py, |_| ());
        // An engine that was closed has ended all work.
        if let (true, Ok(parts)) = (closed, self.shared.parts(py)) {
            parts.driver.abandon(py, Some(self.handle));
            parts.driver.take_room(self.room);
        }
    }
}

impl Drop for UdHandle {
    fn drop(&mut self) {
        // Without the interpreter the queue pair ends with the handle.
        Python::try_attach(|py| self.close(py));
    }
}

/// A queue pair for datagrams over plain RoCEv2 (UD). They get lost and arrive twice, and anybody
/// who knows its number and Q_Key can send them.
#[pyclass(frozen, extends = Context, module = "braid", weakref)]
pub(crate) struct RoceUd {
    handle: Arc<UdHandle>,
}

impl RoceUd {
    pub(crate) fn new(py: Python<'_>, handle: Arc<UdHandle>) -> PyResult<Py<Self>> {
        Context::create(py, RoceUd { handle })
    }
}

#[pymethods]
impl RoceUd {
    /// The queue pair `qp` with the key `q_key` at `gid`, an address. It receives at UDP port
    /// `port`: 4791, unless it is another engine. Datagrams to it have this traffic class.
    #[pyo3(
        signature = (gid, qp, q_key, **settings),
        text_signature = "($self, gid, qp, q_key, *, port=4791, traffic_class=0)"
    )]
    fn peer(
        &self,
        py: Python<'_>,
        gid: &str,
        qp: u32,
        q_key: u32,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<RocePeer> {
        let mut settings = Settings::new(py, "RoceUd.peer", settings)?;
        let (mut port, mut class) = (DEFAULT_PORT, 0u8);
        settings.number("port", &mut port)?;
        settings.number("traffic_class", &mut class)?;
        settings.finish()?;
        let (qp, gid) = (within(py, "qp", qp)?, ip_address(py, gid)?);
        let queues = self.handle.queues.get(py)?;
        let found = release(py, || queues.ud.address(SocketAddr::new(gid, port)));
        let mut to = found.raise(py, "ConnectError")?;
        to.set_traffic_class(class);
        Ok(RocePeer { to, of: Arc::downgrade(&self.handle.shared), gid, port, qp, q_key })
    }

    /// Sends bytes, which are copied, as one datagram of at most `peer.mtu` bytes. The work ends
    /// when the datagram leaves, whether it arrives or not.
    #[pyo3(
        signature = (peer, data, **options),
        text_signature = "($self, peer, data, *, imm=None, solicited=False, to=None)"
    )]
    fn send(
        &self,
        peer: &Bound<'_, RocePeer>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let (py, peer) = (data.py(), peer.get());
        let options = PostOptions::read(py, "RoceUd.send", &PostOptions::DATAGRAM, options)?;
        let queues = self.handle.queues.get(py)?;
        if !std::ptr::eq(peer.of.as_ptr(), Arc::as_ptr(&self.handle.shared)) {
            let text = "the peer was found by another engine; find it by RoceUd.peer of this one";
            return Err(error(py, "PostError", text));
        }
        let refused = "is no payload of a datagram; give bytes, which are copied";
        let check = |py: Python<'_>, len| check_length(py, len, peer.to.mtu().bytes());
        let payload = copy(data, refused, check)?;
        let mut datagram = RoceDatagram::new(0, QpId::new(peer.qp), peer.q_key);
        (datagram.imm, datagram.solicited) = (options.imm, options.solicited);
        let posting = Posting { kind: Work::Send, kept: Kept::default(), to: options.to };
        posting.post(py, self.handle.clone(), |id| {
            let mut datagram = datagram;
            datagram.wr_id = id;
            release(py, || queues.ud.send(&datagram, &peer.to, &payload))
        })
    }

    /// Receives a datagram. `local` is a region, a part of one, or a list of them. The datagram
    /// begins behind 40 bytes of network header, see `sender`. The result of the work is a
    /// `Message`, whose `length` counts the header, and whose `source` is the peer's queue pair.
    #[pyo3(signature = (local, **options), text_signature = "($self, local, *, to=None)")]
    fn recv(
        &self,
        local: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<WorkHandle>> {
        let py = local.py();
        let options = PostOptions::read(py, "RoceUd.recv", &PostOptions::RECV, options)?;
        let LocalMemory { pieces, regions, .. } = LocalMemory::registered(local)?;
        let queues = self.handle.queues.get(py)?;
        let kept = Kept { regions, ..Kept::default() };
        Posting { kind: Work::Recv, kept, to: options.to }.post(py, self.handle.clone(), |id| {
            let sges = pieces.iter().copied().collect();
            queues.receives.post_recv(RecvWr { id, sges })
        })
    }

    /// The address of the sender, of the 40 bytes of network header in front of a datagram. It is
    /// true as far as the network checks source addresses.
    #[staticmethod]
    fn sender(received: &Bound<'_, PyAny>) -> PyResult<String> {
        let enough = |py: Python<'_>, len: usize| match len >= HEADER {
            true => Ok(()),
            false => {
                let text = format!("{len} bytes are less than the {HEADER} of the header");
                Err(error(py, "SettingError", text))
            }
        };
        let bytes = copy(received, "has no network header; give the bytes of a receive", enough)?;
        let ends = bytes.first_chunk().and_then(braid::network_header_ends);
        let none = || error(received.py(), "SettingError", "the bytes begin with no IP header");
        ends.map(|(from, _)| from.to_string()).ok_or_else(none)
    }

    /// Replaces the key that datagrams for the queue pair must have.
    fn set_q_key(&self, py: Python<'_>, q_key: u32) -> PyResult<()> {
        self.handle.queues.get(py)?.ud.set_q_key(q_key);
        Ok(())
    }

    /// The number of the queue pair.
    #[getter]
    fn number(&self) -> u32 {
        self.handle.number
    }

    /// Whether the queue pair is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.queues.is_closed()
    }

    /// Closes the queue pair. Unfinished work fails.
    fn close(&self, py: Python<'_>) {
        self.handle.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<braid.RoceUd {:#x}{state}>", self.handle.number)
    }
}

/// A queue pair to which datagrams are sent.
#[pyclass(frozen, module = "braid")]
pub(crate) struct RocePeer {
    to: RoceUdAddress,
    /// The engine that has found it.
    of: Weak<EngineShared>,
    gid: IpAddr,
    port: u16,
    qp: u32,
    q_key: u32,
}

#[pymethods]
impl RocePeer {
    /// The GID, as an address.
    #[getter]
    fn gid(&self) -> String {
        self.gid.to_string()
    }

    /// The UDP port.
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// The number of the queue pair.
    #[getter]
    fn qp(&self) -> u32 {
        self.qp
    }

    /// The key of the queue pair.
    #[getter]
    fn q_key(&self) -> u32 {
        self.q_key
    }

    /// Bytes of the longest datagram: the path MTU.
    #[getter]
    fn mtu(&self) -> u32 {
        self.to.mtu().bytes()
    }

    fn __repr__(&self) -> String {
        format!("<braid.RocePeer {:#x} at {}, UDP port {}>", self.qp, self.gid, self.port)
    }
}

fn check_length(py: Python<'_>, len: usize, mtu: u32) -> PyResult<()> {
    if len <= mtu as usize {
        return Ok(());
    }
    let text = format!(
        "a datagram of {len} bytes does not fit into the path MTU of {mtu}; send at most {mtu} \
         bytes, or use a connection"
    );
    Err(error(py, "PostError", text))
}
