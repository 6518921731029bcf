//! The application's side of a queue pair.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use braid_keys::Agreed;
use braid_transport::{
    AttemptId, OooDegrees, PdId, PostError, QpAttributes, QpCounters, QpError, QpState, RecvWr,
    SendWr, StateError, TimerError,
};
use braid_wire::{Crc, QpId};

use super::connecting::Connecting;
use super::inline::InlineBuffers;
use super::options::{MAX_INLINE, MAX_QUEUE, MAX_SGE, QpOptions};
use super::shared::{PostedSend, QpShared};
use crate::connect::{ConnectError, Outcome, check_private_data};
use crate::degradation::Degradation;
use crate::inner::EngineInner;
use crate::memory::RegisterError;
use crate::worker::WorkerCell;

/// Why a queue pair was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateQpError {
    /// A value out of its range.
    #[error("`{name}` of a queue pair is {value}; take {min} to {max}")]
    Option {
        /// The option.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// A time out of its range.
    #[error("{0} for a queue pair")]
    Timer(#[from] TimerError),
    /// A completion queue of another engine.
    #[error(
        "a queue pair and its completion queues must be of one engine; create the completion queue with the engine of the protection domain"
    )]
    OtherEngine,
    /// A shared receive queue of another protection domain, or engine.
    #[error(
        "a queue pair and its shared receive queue must be of one protection domain; create both with the same one"
    )]
    OtherDomain,
    /// All numbers are taken.
    #[error("this engine has 65,534 queue pairs already; drop some, or make another engine")]
    TooMany,
    /// No memory for inline data.
    #[error("no memory for inline data: {0}")]
    Inline(#[from] RegisterError),
}

/// A reliable connected queue pair.
///
/// Work requests of each of its two queues end in posting order, each in exactly one completion
/// (signalled, or failed). Any thread may post; what threads post at the same time is ordered in
/// one way or the other.
///
/// Dropping it tells the peer, forgets what is outstanding without completions, and lets go of the
/// memory; [`QueuePair::disconnect`] first where the completions matter.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
///
/// use braid::{Access, Engine, EngineConfig, QpOptions, QpState, Status, wr};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// let memory = pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
/// let (a, b) = (pd.create_qp(QpOptions::new(&cq, &cq))?, pd.create_qp(QpOptions::new(&cq, &cq))?);
///
/// // A receive has to be there before the peer may send.
/// b.modify(QpState::Init)?;
/// b.post_recv(wr::recv(1, [memory.slice(..)?]))?;
/// let listener = engine.listen(1)?;
/// thread::scope(|scope| {
///     scope.spawn(|| listener.accept(PATIENCE).unwrap().accept(&b, b"welcome").unwrap());
///     assert_eq!(a.connect(engine.local_addr(), b"hello", PATIENCE)?, b"welcome");
///     a.post_send_inline(wr::send(2, []), b"message")
///         .map_err(Box::<dyn std::error::Error>::from)
/// })?;
///
/// let mut ended = Vec::new();
/// while ended.len() < 2 {
///     ended.extend(cq.wait(PATIENCE)?);
/// }
/// assert!(ended.iter().all(|done| done.status == Status::Success));
/// let mut text = [0; 7];
/// memory.read_at(0, &mut text)?;
/// assert_eq!(&text, b"message");
/// a.disconnect();
/// # Ok(())
/// # }
/// ```
pub struct QueuePair {
    engine: Arc<EngineInner>,
    shared: Arc<QpShared>,
    /// Index of its worker.
    worker: usize,
    /// Made with the first inline work request.
    inline: OnceLock<InlineBuffers>,
}

impl QueuePair {
    pub(crate) fn create(
        engine: Arc<EngineInner>,
        pd: PdId,
        mut options: QpOptions,
    ) -> Result<Self, CreateQpError> {
        check(&options)?;
        let queues = [&options.send_cq, &options.recv_cq];
        if queues.iter().any(|cq| !Arc::ptr_eq(cq.engine(), &engine)) {
            return Err(CreateQpError::OtherEngine);
        }
        if let Some(srq) = &options.srq {
            if srq.shared().pd() != pd || !Arc::ptr_eq(srq.engine(), &engine) {
                return Err(CreateQpError::OtherDomain);
            }
            options.config.max_recv_wr = srq.shared().capacity();
        }
        let number = engine.take_qp_number().ok_or(CreateQpError::TooMany)?;
        let worker = engine.next_worker();
        let signals = engine.worker(worker).signals().clone();
        let shared = Arc::new(QpShared::new(number, pd, signals, &options));
        for cq in queues {
            let attached: Weak<QpShared> = Arc::downgrade(&shared);
            cq.shared().attach(attached);
        }
        let config = braid_transport::QpConfig { pd, ..options.config };
        engine.worker(worker).control().create(shared.clone(), config);
        Ok(QueuePair { engine, shared, worker, inline: OnceLock::new() })
    }

    pub(crate) fn engine(&self) -> &Arc<EngineInner> {
        &self.engine
    }

    pub(crate) fn shared(&self) -> &Arc<QpShared> {
        &self.shared
    }

    pub(crate) fn worker(&self) -> &WorkerCell {
        self.engine.worker(self.worker)
    }

    pub(crate) fn index(&self) -> usize {
        self.shared.index()
    }

    /// Its number, 24 bits; completions carry it.
    pub fn number(&self) -> QpId {
        self.shared.id
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.shared.state()
    }

    /// Why it is in ERR: who or what ended it, and the work request that failed. `None` in any
    /// other state.
    pub fn error(&self) -> Option<QpError> {
        self.shared.error()
    }

    /// Changes the state: INIT to post receives before connecting, SQD to let the send queue drain,
    /// RTS to go on, ERR to flush, RESET to begin again (work requests are forgotten without
    /// completions, the peer is told). RTR and RTS are otherwise reached by connecting.
    ///
    /// # Errors
    /// The state machine (IBTA vol. 1, 10.3.1) has no such transition.
    pub fn modify(&self, to: QpState) -> Result<(), StateError> {
        if to != QpState::Reset {
            return self.worker().control().modify(self.index(), to);
        }
        let accepted = self.worker().control().reset(self.index());
        self.forget_accepted(accepted);
        Ok(())
    }

    /// Posts a work request for the send queue. In ERR it completes at once, flushed.
    ///
    /// The memory of its pieces must not change (or, for READs and atomics, be used) before the
    /// work request has ended. An unsignalled one has no completion of its own unless it fails: it
    /// has ended when a later one of the queue has completed. Its place in the queue is free as
    /// soon as it has ended.
    ///
    /// # Errors
    /// Nothing was posted: wrong state, `max_send_wr` are outstanding, too many pieces, memory
    /// that is not registered for this use.
    pub fn post_send(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.check_send(&wr, &self.engine.regions.load())?;
        self.post_checked(wr)
    }

    /// As [`QueuePair::post_send`], for a work request that has waited to be posted and was checked
    /// before: memory that is not registered any more fails it in its turn, as it fails one that is
    /// posted.
    ///
    /// # Errors
    /// Nothing was posted: wrong state, `max_send_wr` are outstanding.
    pub fn post_checked_send(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.check_send_state()?;
        self.post_checked(wr)
    }

    fn post_checked(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.sends.reserve()?;
        self.shared.push_send(PostedSend { wr, inline: None });
        self.shared.ring();
        Ok(())
    }

    /// Posts a SEND or WRITE of `data`, up to `max_inline` bytes, which is copied: the caller may
    /// use it again at once, and it need not be registered. `wr` says the rest and has no pieces of
    /// its own: `qp.post_send_inline(wr::send(1, []), b"hello")`.
    ///
    /// # Errors
    /// As for [`QueuePair::post_send`]; also when the data is too long, or the system has no memory
    /// for inline data.
    pub fn post_send_inline(&self, mut wr: SendWr, data: &[u8]) -> Result<(), PostError> {
        self.shared.check_inline(&wr, data)?;
        if data.is_empty() {
            return self.post_send(wr);
        }
        let buffers = self.inline_buffers()?;
        self.shared.sends.reserve()?;
        let Some(index) = self.shared.free_inline.pop() else {
            unreachable!("there are as many inline buffers as places in the send queue");
        };
        wr.sges.push(buffers.fill(index, data));
        self.shared.push_send(PostedSend { wr, inline: Some(index) });
        self.shared.ring();
        Ok(())
    }

    /// Posts a receive. In ERR it completes at once, flushed.
    ///
    /// The memory of its pieces must not be used before it has completed.
    ///
    /// # Errors
    /// Nothing was posted: RESET, `max_recv_wr` are outstanding, too many pieces, memory that is
    /// not registered for writing.
    pub fn post_recv(&self, wr: RecvWr) -> Result<(), PostError> {
        self.shared.check_recv(&wr, &self.engine.regions.load())?;
        self.shared.recvs.reserve()?;
        self.shared.push_recv(wr);
        self.shared.ring();
        Ok(())
    }

    /// Connects to the listener at `addr`, handing its application up to 512 bytes; returns those
    /// that it hands back. Waits for the answer, at most as long as `timeout`.
    ///
    /// # Errors
    /// See [`ConnectError`]; the queue pair stays in INIT, so it can be tried again.
    pub fn connect(
        &self,
        addr: SocketAddr,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        self.connect_any(&[addr], private_data, timeout)
    }

    /// As [`QueuePair::connect`], to a host of which several addresses are known, see
    /// [`crate::resolve`]. They are tried in turn, 250 ms each, until one answers (RFC 8305).
    ///
    /// # Errors
    /// As there, with the first address.
    ///
    /// # Panics
    /// Without an address.
    pub fn connect_any(
        &self,
        addrs: &[SocketAddr],
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        let outcome = Arc::new(Outcome::default());
        self.ask(addrs, private_data, timeout, outcome.clone())?;
        // The worker ends every attempt in time; the rest is for a machine that is very busy.
        let limit = timeout.saturating_add(Duration::from_secs(5));
        let ended = if self.engine.application_drives() {
            self.engine.drive(Some(limit), || outcome.take())
        } else {
            outcome.wait(limit)
        };
        ended.unwrap_or(Err(ConnectError::TimedOut { addr: addrs[0] }))
    }

    /// As [`QueuePair::connect`], but does not wait: what comes of it is told by the attempt, whose
    /// descriptor is for poll, epoll and the like.
    ///
    /// # Errors
    /// It cannot even begin: [`ConnectError::State`], [`ConnectError::AlreadyConnecting`],
    /// [`ConnectError::PrivateData`], [`ConnectError::PathMtu`], [`ConnectError::Unreachable`],
    /// [`ConnectError::Join`], [`ConnectError::Event`].
    pub fn begin_connect(
        &self,
        addr: SocketAddr,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Connecting, ConnectError> {
        self.begin_connect_any(&[addr], private_data, timeout)
    }

    /// As [`QueuePair::begin_connect`], to a host of which several addresses are known, see
    /// [`QueuePair::connect_any`].
    ///
    /// # Errors
    /// As there, with the first address.
    ///
    /// # Panics
    /// Without an address.
    pub fn begin_connect_any(
        &self,
        addrs: &[SocketAddr],
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Connecting, ConnectError> {
        let outcome = Arc::new(Outcome::with_event().map_err(ConnectError::Event)?);
        let attempt = self.ask(addrs, private_data, timeout, outcome.clone())?;
        let (engine, qp) = (self.engine.clone(), self.shared.clone());
        Ok(Connecting::new(engine, qp, self.worker, attempt, addrs[0], outcome))
    }

    /// Begins an attempt whose end is put into `outcome`, and returns its number.
    fn ask(
        &self,
        addrs: &[SocketAddr],
        private_data: &[u8],
        timeout: Duration,
        outcome: Arc<Outcome>,
    ) -> Result<u64, ConnectError> {
        assert!(!addrs.is_empty(), "a host to connect to has an address");
        check_private_data(private_data)?;
        self.worker().control().begin_connect(self.index(), addrs, private_data, timeout, outcome)
    }

    /// Changes what of its options may change while it exists (`ibv_modify_qp`), in any state.
    pub fn set_attributes(&self, attributes: QpAttributes) {
        self.worker().control().set_attributes(self.index(), attributes);
    }

    /// Tells the peer that this is the end: both sides go to ERR and flush what is outstanding.
    /// What was posted and has not completed may or may not take effect at the peer.
    pub fn disconnect(&self) {
        self.worker().control().disconnect(self.index());
    }

    /// The receiving address of the peer's queue pair, while it is connected.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.worker().control().remote_addr(self.index())
    }

    /// Work requests that are posted and have not ended: sends, receives.
    pub fn outstanding(&self) -> (u32, u32) {
        (self.shared.sends.outstanding(), self.shared.recvs.outstanding())
    }

    /// What it has seen since it was created or reset.
    pub fn counters(&self) -> QpCounters {
        self.worker().control().qp_counters(self.index())
    }

    /// How far out of order the packets of the peer have come; `None`: none has, or it is not
    /// connected.
    pub fn ooo_degrees(&self) -> Option<OooDegrees> {
        self.worker().control().ooo_degrees(self.index())
    }

    /// Payload bytes of a full packet, as agreed with the peer and as the path carries by now;
    /// `None` before it is connected. Over UDP it begins with what every path carries and grows
    /// within a round trip or so.
    pub fn packet_payload(&self) -> Option<u16> {
        self.worker().control().packet_payload(self.index())
    }

    /// Whether it sends from the port of each path, as it should, or only from its receiving port,
    /// because nothing else reaches the peer (a NAT or a stateful firewall stands between): then it
    /// has one path. `None` before it is connected.
    pub fn uses_path_ports(&self) -> Option<bool> {
        self.worker().control().uses_path_ports(self.index())
    }

    /// Returns the degradations of its connection, which all connections to the same peer have:
    /// paths that a firewall blocks, segmentation that the kernel refuses, rails that carry nothing
    /// and so on. Empty before it is connected, and where all is well.
    pub fn degradations(&self) -> Vec<Degradation> {
        self.worker().control().degradations(self.index())
    }

    /// Whether payloads carry a check, as agreed with the peer; `None` before it is connected.
    pub fn payload_crc(&self) -> Option<Crc> {
        Some(self.worker().control().remote(self.index())?.crc)
    }

    /// How its packets are protected, as agreed with the peer; `None`: they are not, or it is not
    /// connected.
    pub fn security(&self) -> Option<Agreed> {
        self.worker().control().session(self.index()).map(|session| session.agreed())
    }

    /// What the engine's list of allowed keys calls the peer, which has proved to have the key;
    /// `None`: keys are not static, or it is not connected.
    pub fn peer_name(&self) -> Option<Arc<str>> {
        self.worker().control().session(self.index())?.peer().cloned()
    }

    /// How often the key has been changed that it protects what it sends with; `None` as above.
    pub fn key_updates(&self) -> Option<u64> {
        self.worker().control().session(self.index()).map(|session| session.key_updates())
    }

    /// The worker that listens has nobody any more who answers for this attempt.
    fn forget_accepted(&self, attempt: Option<AttemptId>) {
        if let Some(attempt) = attempt {
            self.engine.first_worker().control().forget_accepted(attempt, self.shared.id);
        }
    }

    /// They are made when the first is needed. Two threads that are first at the same time both
    /// make them, and one's stay.
    fn inline_buffers(&self) -> Result<&InlineBuffers, PostError> {
        if let Some(buffers) = self.inline.get() {
            return Ok(buffers);
        }
        let (count, size) = (self.shared.sends.capacity(), self.shared.max_inline);
        let made = InlineBuffers::new(self.engine.clone(), self.shared.pd, count, size);
        let bytes = count as usize * size;
        let made = made.map_err(|_| PostError::NoInlineMemory { bytes })?;
        Ok(self.inline.get_or_init(|| made))
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.engine.is_here() {
            return;
        }
        let (index, number) = (self.index(), self.shared.number());
        let accepted = self.worker().control().destroy(index);
        self.forget_accepted(accepted);
        self.engine.give_back_qp_number(number);
    }
}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("QueuePair");
        out.field("number", &self.number()).field("state", &self.state()).finish()
    }
}

fn check(options: &QpOptions) -> Result<(), CreateQpError> {
    let config = &options.config;
    let ranges = [
        ("max_send_wr", u64::from(config.max_send_wr), 1, u64::from(MAX_QUEUE)),
        ("max_recv_wr", u64::from(config.max_recv_wr), 1, u64::from(MAX_QUEUE)),
        ("window", u64::from(config.window), 1, 4096),
        ("max_rd_atomic", u64::from(config.max_rd_atomic), 1, 255),
        ("max_sge", options.max_sge as u64, 1, MAX_SGE as u64),
        ("max_inline", options.max_inline as u64, 0, MAX_INLINE as u64),
    ];
    match ranges.into_iter().find(|(_, value, min, max)| !(min..=max).contains(&value)) {
        Some((name, value, min, max)) => Err(CreateQpError::Option { name, value, min, max }),
        None => Ok(config.check_timers()?),
    }
}
