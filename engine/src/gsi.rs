//! Queue pair 1 of RoCEv2 (the queue pair of general services, GSI), to which peers send management
//! datagrams (MADs).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use braid_wire::{DEFAULT_PORT, IcrcEnds, MAD_LEN, UdHeader, UdPacket};

use crate::inner::EngineInner;
use crate::mad_queue::{MadQueue, RawMad};
use crate::roce::RoceError;

/// Queue pair 1 of an engine's RoCEv2 port, from [`crate::Engine::roce_gsi`]. It sends and receives
/// management datagrams of 256 bytes. They get lost and arrive twice, and anybody can send them.
pub struct RoceGsi {
    inner: Arc<EngineInner>,
    queue: Arc<MadQueue>,
    tag: u8,
    psn: AtomicU32,
}

/// A management datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedMad {
    /// The host that has sent it, as far as its source address is true.
    pub from: IpAddr,
    /// The local address that it was sent to.
    pub to: IpAddr,
    /// The bytes.
    pub bytes: [u8; MAD_LEN],
}

impl RoceGsi {
    pub(crate) fn open(inner: Arc<EngineInner>) -> Result<Self, RoceError> {
        let (queue, tag) = inner.first_worker().open_gsi()?;
        Ok(RoceGsi { inner, queue, tag, psn: AtomicU32::new(0) })
    }

    /// The high 8 bits of the numbers that this process gives to its connections. Other processes
    /// that share the port have other tags, and datagrams for connections find their process by it.
    pub fn tag(&self) -> u8 {
        self.tag
    }

    /// Takes the requests for connections to a service from now on. Of the processes that share
    /// the port, the last one that calls this for a service gets its requests.
    ///
    /// # Errors
    /// The process that reads the port does not answer.
    pub fn serve(&self, service: u64) -> Result<(), RoceError> {
        self.inner.first_worker().control().serve_gsi(service)
    }

    /// Sends a datagram to queue pair 1 of a host.
    ///
    /// # Errors
    /// The host cannot be reached, see [`RoceError`].
    pub fn send(&self, to: IpAddr, mad: &[u8; MAD_LEN]) -> Result<(), RoceError> {
        let (to, header) = (SocketAddr::new(to, DEFAULT_PORT), self.header());
        self.inner.first_worker().control().send_management(to, &header, mad)
    }

    /// Sends a datagram as the process ends. If another thread holds the engine's lock until
    /// `until`, the datagram is lost.
    pub fn send_at_exit(&self, to: IpAddr, mad: &[u8; MAD_LEN], until: Instant) {
        let (to, header) = (SocketAddr::new(to, DEFAULT_PORT), self.header());
        if self.inner.is_here()
            && let Some(mut worker) = self.inner.first_worker().lock_until(until)
        {
            // The peer finds out by itself if the datagram does not leave.
            let _ = worker.send_management(to, &header, mad);
        }
    }

    /// Waits for the next intact datagram, without a limit if `limit` is `None`. Returns `None` at
    /// the limit, and after [`RoceGsi::wake`].
    pub fn recv(&self, limit: Option<Duration>) -> Option<ReceivedMad> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let raw = self.queue.take(until)?;
            if let Some(mad) = self.check(&raw) {
                return Some(mad);
            }
            tracing::debug!(from = %raw.from, "a management datagram is damaged");
        }
    }

    /// Ends a [`RoceGsi::recv`] of another thread, or the next one.
    pub fn wake(&self) {
        self.queue.wake();
    }

    fn check(&self, raw: &RawMad) -> Option<ReceivedMad> {
        let host = SocketAddr::new(raw.from.ip().to_canonical(), DEFAULT_PORT);
        let port = self.inner.first_worker().roce_port(host).ok()?;
        let to = SocketAddr::new(port.gid, port.port);
        let from = SocketAddr::new(host.ip(), raw.from.port());
        IcrcEnds { from, to }.check(&raw.bytes, raw.place)?;
        let bytes = *UdPacket::decode(&raw.bytes).ok()?.payload.first_chunk()?;
        Some(ReceivedMad { from: host.ip(), to: port.gid, bytes })
    }

    fn header(&self) -> UdHeader {
        UdHeader::management(self.psn.fetch_add(1, Ordering::Relaxed))
    }
}
