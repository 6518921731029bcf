//! Connections that speak plain RoCEv2.

use std::net::SocketAddr;
use std::sync::Arc;

use braid::{QpId, QueuePair, RoceMtu, RocePort as EnginePort, RoceRemote};
use pyo3::prelude::*;

use crate::engine_shared::EngineShared;
use crate::errors::{Raise, error};
use crate::process::release;
use crate::settings::{Settings, ip_address};

/// Queue pair numbers and PSNs have 24 bits.
const MAX_24_BITS: u32 = (1 << 24) - 1;

/// The end of an engine of its RoCEv2 connections to a peer, which the peer has to be told.
#[pyclass(frozen, module = "braid", get_all)]
pub(crate) struct RocePort {
    /// The GID from which packets leave, as an address.
    gid: String,
    /// The UDP port at which the engine receives.
    port: u16,
    /// The largest path MTU in bytes that the route to the peer carries.
    mtu: u32,
}

#[pymethods]
impl RocePort {
    fn __repr__(&self) -> String {
        let RocePort { gid, port, mtu } = self;
        format!("<braid.RocePort {gid}, UDP port {port}, path MTU {mtu}>")
    }
}

impl RocePort {
    /// The end of the engine of connections to `gid`.
    pub(crate) fn of(
        py: Python<'_>,
        shared: &Arc<EngineShared>,
        gid: &str,
        port: u16,
    ) -> PyResult<Self> {
        let to = SocketAddr::new(ip_address(py, gid)?, port);
        let parts = shared.parts(py)?;
        let found = release(py, || parts.engine.roce_port(to)).raise(py, "ConnectError")?;
        let EnginePort { gid, port, mtu, .. } = found;
        Ok(RocePort { gid: gid.to_string(), port, mtu: mtu.bytes() })
    }
}

/// Connects a queue pair to queue pair `number` of a peer.
pub(crate) fn connect(
    py: Python<'_>,
    qp: &QueuePair,
    (gid, number): (&str, u32),
    mut settings: Settings<'_>,
) -> PyResult<()> {
    let mut to = RoceRemote::new(ip_address(py, gid)?, QpId::new(within(py, "qp", number)?));
    settings.number("port", &mut to.port)?;
    if let Some(own) = settings.maybe_number("own_qp")? {
        to.own_qp = Some(QpId::new(within(py, "own_qp", own)?));
    }
    settings.number("recv_psn", &mut to.recv_psn)?;
    settings.number("send_psn", &mut to.send_psn)?;
    within(py, "recv_psn", to.recv_psn)?;
    within(py, "send_psn", to.send_psn)?;
    if let Some(bytes) = settings.maybe_number::<u32>("mtu")? {
        let text = || format!("`mtu` is {bytes}; it takes 256, 512, 1024, 2048 or 4096");
        let mtu = RoceMtu::from_bytes(bytes).ok_or_else(|| error(py, "SettingError", text()))?;
        to.mtu = Some(mtu);
    }
    settings.number("max_rd_atomic", &mut to.max_rd_atomic)?;
    settings.seconds("ack_timeout", &mut to.ack_timeout)?;
    settings.number("retry_count", &mut to.retry_count)?;
    settings.number("window", &mut to.window)?;
    if let Some(text) = settings.text("dcqcn")? {
        to.dcqcn = Some(text.parse().raise(py, "SettingError")?);
    }
    settings.finish()?;
    release(py, || qp.connect_roce(&to)).raise(py, "ConnectError")
}

/// Checks a number of 24 bits.
pub(crate) fn within(py: Python<'_>, name: &str, value: u32) -> PyResult<u32> {
    if value <= MAX_24_BITS {
        return Ok(value);
    }
    let text = format!("`{name}` is {value}; it takes at most {MAX_24_BITS}");
    Err(error(py, "SettingError", text))
}
