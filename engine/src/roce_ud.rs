//! Unreliable datagrams over plain RoCEv2 (the UD service of IBTA).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::PostError;
use braid_wire::{ICRC_LEN, IcrcEnds, QpId, UdHeader};

use crate::cq::CompletionQueue;
use crate::inner::EngineInner;
use crate::roce::{RoceError, RoceUdAddress};
use crate::srq::SharedReceiveQueue;
use crate::ud_queues::{OutgoingDatagram, UdQueues};

/// A queue pair of the unreliable datagram (UD) service of plain RoCEv2, from
/// [`crate::Engine::roce_ud`]. Its peers are RNICs, the kernel's rxe and other engines. Datagrams
/// get lost and arrive twice, and anybody who knows number and Q_Key can send them.
///
/// Each takes a receive, which holds 40 bytes of network header (see
/// [`braid_wire::IcrcEnds::network_header`]) and the payload. A datagram without a receive is lost.
/// One that is too long for its receive is lost too, and the receive ends with
/// [`crate::Status::LocalLength`]. The completion of a receive names the sender
/// ([`crate::Completion::source`]).
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Access, Engine, EngineConfig, QpId, RoceDatagram, RoceUdOptions, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?; // both ends are Braid, so any port will do
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// let (srq, memory) = (pd.create_srq(16, 1)?, pd.alloc_mr(4096, Access::LOCAL_WRITE)?);
/// let port = engine.local_addr().port(); // 4791 for other peers than engines
/// let options = RoceUdOptions::new(QpId::new(0x11), 0x1234, &cq, &srq);
/// let qp = engine.roce_ud(port, &options)?;
///
/// srq.post_recv(wr::recv(7, [memory.slice(..1024)?]))?;
/// let to = qp.address(engine.local_addr())?;
/// qp.send(&RoceDatagram::new(1, QpId::new(0x11), 0x1234), &to, b"hello")?;
/// let (mut text, mut received) = ([0; 5], false);
/// while !received {
///     let done = cq.wait(Duration::from_secs(10))?;
///     received = done.iter().any(|done| (done.wr_id, done.source) == (7, QpId::new(0x11)));
/// }
/// memory.read_at(40, &mut text)?;
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct RoceUd {
    inner: Arc<EngineInner>,
    queues: Arc<UdQueues>,
    max_sends: u32,
}

/// The attributes of a [`RoceUd`].
#[derive(Clone)]
#[non_exhaustive]
pub struct RoceUdOptions {
    /// The number by which peers know the queue pair.
    pub number: QpId,
    /// The number that completions bear ([`crate::Completion::qp`]). Default: `number`.
    pub completes_as: QpId,
    /// The key that datagrams for the queue pair have to have.
    pub q_key: u32,
    /// The queue in which sends complete.
    pub send_cq: CompletionQueue,
    /// The queue in which receives complete.
    pub recv_cq: CompletionQueue,
    /// The receives.
    pub receives: SharedReceiveQueue,
    /// The first PSN (24 bits). Default: 0.
    pub psn: u32,
    /// Sends that have not completed, at most. Default: 256.
    pub max_sends: u32,
}

impl RoceUdOptions {
    /// A queue pair that completes in `cq` and takes the receives of `receives`.
    pub fn new(
        number: QpId,
        q_key: u32,
        cq: &CompletionQueue,
        receives: &SharedReceiveQueue,
    ) -> Self {
        RoceUdOptions {
            number,
            completes_as: number,
            q_key,
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            receives: receives.clone(),
            psn: 0,
            max_sends: 256,
        }
    }
}

/// A send of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RoceDatagram {
    /// The id of the send.
    pub wr_id: u64,
    /// The peer's queue pair.
    pub qp: QpId,
    /// The key of the peer's queue pair.
    pub q_key: u32,
    /// Immediate data. Default: none.
    pub imm: Option<u32>,
    /// Whether the datagram causes a solicited event at the peer. Default: false.
    pub solicited: bool,
    /// Whether the send has a completion. Default: true.
    pub signalled: bool,
}

impl RoceDatagram {
    /// A send to a queue pair that has this key.
    pub fn new(wr_id: u64, qp: QpId, q_key: u32) -> Self {
        RoceDatagram { wr_id, qp, q_key, imm: None, solicited: false, signalled: true }
    }
}

impl RoceUd {
    pub(crate) fn open(
        inner: Arc<EngineInner>,
        port: u16,
        options: &RoceUdOptions,
    ) -> Result<Self, RoceError> {
        let RoceUdOptions { number, send_cq, recv_cq, receives, .. } = options;
        // Both queue pairs of management: 0 and the GSI.
        if number.get() <= UdHeader::GSI.get() {
            return Err(RoceError::Reserved { number: *number });
        }
        let owners = [send_cq.engine(), recv_cq.engine(), receives.engine()];
        if owners.iter().any(|owner| !Arc::ptr_eq(owner, &inner)) {
            return Err(RoceError::OtherEngine);
        }
        let queues = inner.first_worker().open_ud(port, |gids| UdQueues {
            number: *number,
            completes_as: options.completes_as,
            q_key: AtomicU32::new(options.q_key),
            send_cq: send_cq.shared().clone(),
            recv_cq: recv_cq.shared().clone(),
            receives: receives.shared().clone(),
            gids,
            outstanding: AtomicU32::new(0),
            psn: AtomicU32::new(options.psn),
        })?;
        Ok(RoceUd { inner, queues, max_sends: options.max_sends })
    }

    /// The number by which peers know the queue pair.
    pub fn number(&self) -> QpId {
        self.queues.number
    }

    /// Replaces the key that datagrams for the queue pair have to have.
    pub fn set_q_key(&self, q_key: u32) {
        self.queues.q_key.store(q_key, Ordering::Release);
    }

    /// The address of a peer that receives at `to`: port 4791, unless it is another engine.
    ///
    /// # Errors
    /// See [`RoceError`].
    pub fn address(&self, to: SocketAddr) -> Result<RoceUdAddress, RoceError> {
        let to = SocketAddr::new(IpAddr::to_canonical(&to.ip()), to.port());
        self.inner.first_worker().control().ud_address(to)
    }

    /// Sends a datagram, in the next round of the engine. The payload is copied. The send completes
    /// when the datagram leaves.
    ///
    /// # Errors
    /// Nothing is sent: the queue is full, or the payload is longer than the path MTU.
    pub fn send(
        &self,
        datagram: &RoceDatagram,
        to: &RoceUdAddress,
        payload: &[u8],
    ) -> Result<(), PostError> {
        if payload.len() > to.mtu.bytes() as usize {
            return Err(PostError::TooLong { len: payload.len() as u64 });
        }
        let (max, outstanding) = (self.max_sends, &self.queues.outstanding);
        let next = |count| (count < max).then_some(count + 1);
        if outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_err() {
            return Err(PostError::QueueFull { capacity: max, queue: "send" });
        }
        let header = UdHeader {
            solicited: datagram.solicited,
            qp: datagram.qp,
            psn: self.queues.psn.fetch_add(1, Ordering::Relaxed) & 0xFF_FFFF,
            q_key: datagram.q_key,
            source: self.queues.number,
            imm: datagram.imm,
        };
        let mut bytes = Vec::with_capacity(header.encoded_len() + payload.len() + 3 + ICRC_LEN);
        header.encode(payload, &mut bytes);
        // A packet that is alone has the identification 0, whether batches are numbered or not.
        IcrcEnds { from: to.from, to: to.pair.remote }.append(&mut bytes, 0);
        let RoceDatagram { wr_id, signalled, .. } = *datagram;
        let (of, to) = (self.queues.clone(), to.pair);
        let len = payload.len() as u32;
        let outgoing = OutgoingDatagram { of, to, bytes, len, wr_id, signalled };
        self.inner.first_worker().control().send_ud(outgoing);
        Ok(())
    }

    /// Closes the queue pair: nothing arrives and completes from now on. Returns the ids of the
    /// sends that have not left, in posting order.
    pub fn close(&self) -> Vec<u64> {
        self.inner.first_worker().control().close_ud(&self.queues)
    }
}

impl Drop for RoceUd {
    fn drop(&mut self) {
        // The worker of a forked child is a copy, and one that has panicked is not used.
        if self.inner.is_here()
            && let Some(mut worker) = self.inner.first_worker().try_control()
        {
            worker.close_ud(&self.queues);
        }
    }
}
