//! The application's handle of a queue pair.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
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
use super::options::{MAX_INLINE, QpOptions};
use super::shared::{PostedSend, QpQueues, QpShared};
use crate::clock::deadline;
use crate::connect::{ConnectError, Outcome, check_private_data};
use crate::degradation::Degradation;
use crate::inner::EngineInner;
use crate::memory::RegisterError;
use crate::resolve::resolve;
use crate::work_queue::{MAX_QUEUE, MAX_SGE};
use crate::worker::WorkerCell;

/// The reason why a queue pair was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateQpError {
    /// An option is out of its range.
    #[error("`{name}` of a queue pair is {value}; take {min} to {max}")]
    Option {
        /// The name of the option.
        name: &'static str,
        /// The requested value.
        value: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// A time is out of its range.
    #[error("{0} for a queue pair")]
    Timer(#[from] TimerError),
    /// The completion queue belongs to another engine.
    #[error(
        "a queue pair and its completion queues must be of one engine; create the completion queue \
         with the engine of the protection domain"
    )]
    OtherEngine,
    /// The shared receive queue belongs to another protection domain or engine.
    #[error(
        "a queue pair and its shared receive queue must be of one protection domain; create both \
         with the same one"
    )]
    OtherDomain,
    /// Every queue pair number is in use.
    #[error("this engine has 65,534 queue pairs already; drop some, or make another engine")]
    TooMany,
    /// The system has no memory for inline data.
    #[error("no memory for inline data: {0}")]
    Inline(#[from] RegisterError),
}

/// A reliable connected queue pair.
///
/// The work requests of each of its two queues end in posting order. Each signalled or failed work
/// request ends in exactly one completion. Any thread may post. Concurrent posts are ordered one
/// way or the other.
///
/// Dropping the queue pair tells the peer, ends outstanding work requests without completions, and
/// releases their memory. Call [`QueuePair::disconnect`] first if the completions matter.
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
    /// The index of its worker.
    worker: usize,
    /// Buffers for inline data, created with the first inline work request.
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
        let limits = (options.max_sge, options.max_inline);
        let queues = QpQueues {
            send_cq: options.send_cq.shared().clone(),
            recv_cq: options.recv_cq.shared().clone(),
            srq: options.srq.as_ref().map(|srq| srq.shared().clone()),
            max_send_wr: options.config.max_send_wr,
            max_recv_wr: options.config.max_recv_wr,
        };
        let shared = Arc::new(QpShared::new(number, pd, queues, limits, signals));
        for cq in [&shared.send_cq, &shared.recv_cq] {
            let attached: Weak<QpShared> = Arc::downgrade(&shared);
            cq.attach(attached);
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

    /// The queue pair number, 24 bits. Completions carry it.
    pub fn number(&self) -> QpId {
        self.shared.id
    }

    /// The state of the queue pair.
    pub fn state(&self) -> QpState {
        self.shared.state()
    }

    /// The reason why the queue pair is in ERR: the end that caused it and the work request that
    /// failed. `None` in any other state.
    pub fn error(&self) -> Option<QpError> {
        self.shared.error()
    }

    /// Changes the state. INIT allows posting receives before connecting. SQD drains the send
    /// queue, and RTS resumes it. ERR flushes both queues. RESET starts over: outstanding work
    /// requests end without completions, and the peer is told. RTR and RTS are otherwise reached by
    /// connecting.
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

    /// Posts a work request to the send queue. In ERR it is flushed at once.
    ///
    /// The memory of its pieces must not change before the work request has ended; for READs and
    /// atomics, it must not be used at all. An unsignalled work request has no completion of its
    /// own unless it fails. It has ended when a later one of the same queue has completed. Its
    /// place in the queue is free as soon as it has ended.
    ///
    /// # Errors
    /// Nothing was posted: the state is wrong, `max_send_wr` work requests are outstanding, there
    /// are too many pieces, or memory is not registered for this use.
    pub fn post_send(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.check_send(&wr, &self.engine.regions.load())?;
        self.post_checked(wr)
    }

    /// Posts a work request that was checked earlier, see [`QueuePair::post_send`]. If its memory
    /// is not registered any more, the work request fails in its turn, as one that is posted does.
    ///
    /// # Errors
    /// Nothing was posted: the state is wrong, or `max_send_wr` work requests are outstanding.
    pub fn post_checked_send(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.check_send_state()?;
        self.post_checked(wr)
    }

    /// Posts a work request to the send queue, see [`QueuePair::post_send`], and waits for room in
    /// it for up to `timeout`. If the application drives the engine, the wait drives it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use braid::{Engine, EngineConfig, PostError, QpOptions, RemoteAddr, wr};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let bind = "127.0.0.1:0".parse()?;
    /// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
    /// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
    /// # let (a, b) = (pd.create_qp(QpOptions::new(&cq, &cq).queues(2, 1))?,
    /// #               pd.create_qp(QpOptions::new(&cq, &cq))?);
    /// # let listener = engine.listen(1)?;
    /// # std::thread::scope(|scope| {
    /// #     scope.spawn(|| listener.accept(Duration::MAX).unwrap().accept(&b, b"").unwrap());
    /// #     a.connect(engine.local_addr(), b"", Duration::from_secs(10))
    /// # })?;
    /// # let nowhere = braid::RemoteRegion { addr: 0, len: 0, rkey: 0 }.at(0);
    /// // The queue has two places; each post waits until one is free.
    /// for id in 0..32 {
    ///     a.post_send_within(wr::write(id, [], nowhere), Duration::from_secs(10))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`QueuePair::post_send`]. [`PostError::QueueFull`]: there was no room in time.
    pub fn post_send_within(&self, wr: SendWr, timeout: Duration) -> Result<(), PostError> {
        self.shared.check_send(&wr, &self.engine.regions.load())?;
        let sends = &self.shared.sends;
        if !sends.reserve_without_excess() {
            if self.engine.application_drives() {
                let reserve = || sends.reserve_without_excess().then_some(());
                let found = self.engine.drive(Some(timeout), reserve);
                found.ok_or_else(|| sends.full())?;
            } else {
                sends.reserve_by(deadline(timeout))?;
            }
        }
        sends.push(PostedSend { wr, inline: None });
        self.worker().ring(self.index());
        Ok(())
    }

    /// Returns a descriptor for programs that wait for room in the send queue among other things
    /// (poll, epoll). [`QueuePair::notify_send_room`] arms it. Valid as long as the queue pair.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn send_room(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.shared.sends.room().event()?.as_fd())
    }

    /// Arms the descriptor of [`QueuePair::send_room`]: the next work request that ends makes it
    /// readable, once. Post once more after this call, because earlier ends do not count.
    pub fn notify_send_room(&self) {
        let room = self.shared.sends.room();
        if let Ok(event) = room.event() {
            event.take();
        }
        room.await_place();
        self.engine.application_waits();
    }

    fn post_checked(&self, wr: SendWr) -> Result<(), PostError> {
        self.shared.sends.reserve()?;
        self.shared.sends.push(PostedSend { wr, inline: None });
        self.worker().ring(self.index());
        Ok(())
    }

    /// Posts a SEND or WRITE of `data`, up to `max_inline` bytes. The call copies the bytes: the
    /// caller may reuse them at once, and they need not be registered. `wr` has the other
    /// parameters and no pieces: `qp.post_send_inline(wr::send(1, []), b"hello")`.
    ///
    /// # Errors
    /// As for [`QueuePair::post_send`]. Also, the data is too long, or the system has no memory for
    /// inline data.
    pub fn post_send_inline(&self, mut wr: SendWr, data: &[u8]) -> Result<(), PostError> {
        self.shared.check_inline(&wr, data)?;
        if data.is_empty() {
            return self.post_send(wr);
        }
        let buffers = self.inline_buffers()?;
        self.shared.sends.reserve()?;
        let index = self.shared.inline.take();
        wr.sges.push(buffers.fill(index, data));
        self.shared.sends.push(PostedSend { wr, inline: Some(index) });
        self.worker().ring(self.index());
        Ok(())
    }

    /// Posts a receive. In ERR it is flushed at once.
    ///
    /// The memory of its pieces must not be used before the receive has completed.
    ///
    /// # Errors
    /// Nothing was posted: the state is RESET, `max_recv_wr` receives are outstanding, there are
    /// too many pieces, or memory is not registered for writing. If the queue pair has a shared
    /// receive queue, receives are posted there: [`PostError::SharedReceives`].
    pub fn post_recv(&self, wr: RecvWr) -> Result<(), PostError> {
        if self.shared.srq.is_some() {
            return Err(PostError::SharedReceives);
        }
        self.shared.check_recv(&wr, &self.engine.regions.load())?;
        self.shared.recvs.reserve()?;
        self.shared.recvs.push(wr);
        self.worker().ring(self.index());
        Ok(())
    }

    /// Connects to the listener at `addr` and sends up to 512 bytes of private data to its
    /// application. Returns the private data of the answer. Waits for the answer for up to
    /// `timeout`.
    ///
    /// # Errors
    /// See [`ConnectError`]. The queue pair stays in INIT, so another attempt is possible.
    pub fn connect(
        &self,
        addr: SocketAddr,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        self.connect_any(&[addr], private_data, timeout)
    }

    /// Connects to a host by its name or address, see [`crate::resolve`] for the forms. Without a
    /// port it is [`crate::DEFAULT_PORT`]. All addresses of a name are tried, see
    /// [`QueuePair::connect_any`]. The look-up of the name takes as long as the system's resolver.
    ///
    /// # Errors
    /// As for [`QueuePair::connect`]. [`ConnectError::Resolve`]: the host has no address.
    pub fn connect_host(
        &self,
        host: &str,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        let addrs = resolve(host, crate::DEFAULT_PORT)?;
        self.connect_any(&addrs, private_data, timeout)
    }

    /// Connects to a host with several addresses, see [`crate::resolve`] and
    /// [`QueuePair::connect`]. Tries the addresses in turn, 250 ms each, until one answers (RFC
    /// 8305).
    ///
    /// # Errors
    /// As for [`QueuePair::connect`], with the first address.
    ///
    /// # Panics
    /// Panics if `addrs` is empty.
    pub fn connect_any(
        &self,
        addrs: &[SocketAddr],
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        let outcome = Arc::new(Outcome::default());
        self.ask(addrs, private_data, timeout, outcome.clone())?;
        // The worker ends every attempt in time. The additional time is for a very busy machine.
        let limit = timeout.saturating_add(Duration::from_secs(5));
        let ended = if self.engine.application_drives() {
            self.engine.drive(Some(limit), || outcome.take())
        } else {
            outcome.wait(limit)
        };
        ended.unwrap_or_else(|| {
            let over = self.engine.attributes.protocols.join(" or ");
            Err(ConnectError::TimedOut { addr: addrs[0], over })
        })
    }

    /// Begins an attempt to connect and returns at once, see [`QueuePair::connect`]. The returned
    /// attempt has a descriptor for poll, epoll and similar calls.
    ///
    /// # Errors
    /// The attempt cannot begin: [`ConnectError::State`], [`ConnectError::AlreadyConnecting`],
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

    /// Begins an attempt to connect to a host with several addresses, see
    /// [`QueuePair::begin_connect`] and [`QueuePair::connect_any`].
    ///
    /// # Errors
    /// As for [`QueuePair::begin_connect`], with the first address.
    ///
    /// # Panics
    /// Panics if `addrs` is empty.
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

    /// Begins an attempt with its outcome in `outcome`. Returns the number of the attempt.
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

    /// Changes the options that may change during the life of a queue pair (`ibv_modify_qp`), in
    /// any state.
    pub fn set_attributes(&self, attributes: QpAttributes) {
        self.worker().control().set_attributes(self.index(), attributes);
    }

    /// Disconnects. Both ends go to ERR and flush outstanding work requests. A posted work request
    /// without a completion may or may not take effect at the peer.
    pub fn disconnect(&self) {
        self.worker().control().disconnect(self.index());
    }

    /// The receiving address of the peer's queue pair. `None`: not connected.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.worker().control().remote_addr(self.index())
    }

    /// Sets the traffic class of the packets of connections made from now on, as `IP_TOS` and
    /// `IPV6_TCLASS`: the upper six bits are the DSCP (RFC 2474). The lower two are ignored,
    /// because the engine sets the ECN bits. Set-up packets have class 0. Default: 0.
    ///
    /// Connections of another class to the same peer have their own paths and share no datagram
    /// batches.
    pub fn set_traffic_class(&self, traffic_class: u8) {
        self.shared.set_traffic_class(traffic_class);
    }

    /// The numbers of outstanding work requests: sends and receives.
    pub fn outstanding(&self) -> (u32, u32) {
        (self.shared.sends.outstanding(), self.shared.recvs.outstanding())
    }

    /// The counters since the queue pair was created or reset.
    pub fn counters(&self) -> QpCounters {
        self.worker().control().qp_counters(self.index())
    }

    /// The reordering extent of the peer's packets. `None`: no packet arrived out of order, or the
    /// queue pair is not connected.
    pub fn ooo_degrees(&self) -> Option<OooDegrees> {
        self.worker().control().ooo_degrees(self.index())
    }

    /// Payload bytes of a full packet, as agreed with the peer and as the path carries now. `None`:
    /// not connected. Over UDP the value starts at a size that every path carries, and grows within
    /// about one round trip.
    pub fn packet_payload(&self) -> Option<u16> {
        self.worker().control().packet_payload(self.index())
    }

    /// Whether the queue pair sends from the source port of each path, as it should. `false`: a NAT
    /// or a stateful firewall drops these packets, so all packets leave from the receiving port, on
    /// one path. `None`: not connected.
    pub fn uses_path_ports(&self) -> Option<bool> {
        self.worker().control().uses_path_ports(self.index())
    }

    /// The degradations of the connection, which all connections to the same peer share: paths that
    /// a firewall blocks, segmentation offload that the kernel refuses, rails without traffic.
    /// Empty if the queue pair is not connected or nothing is degraded.
    pub fn degradations(&self) -> Vec<Degradation> {
        self.worker().control().degradations(self.index())
    }

    /// The protocol that carries the packets, such as `UDP` or `TCP`. `None`: not connected.
    pub fn protocol(&self) -> Option<&'static str> {
        self.worker().control().protocol(self.index())
    }

    /// The payload check agreed with the peer. `None`: not connected.
    pub fn payload_crc(&self) -> Option<Crc> {
        Some(self.worker().control().remote(self.index())?.crc)
    }

    /// The packet protection agreed with the peer. `None`: packets are not protected, or the queue
    /// pair is not connected.
    pub fn security(&self) -> Option<Agreed> {
        self.worker().control().session(self.index()).map(|session| session.agreed())
    }

    /// The peer's name in the engine's list of allowed keys. The peer has proved that it has the
    /// key. `None`: keys are not static, or the queue pair is not connected.
    pub fn peer_name(&self) -> Option<Arc<str>> {
        self.worker().control().session(self.index())?.peer().cloned()
    }

    /// The number of times the sending key was updated. `None`: as for [`QueuePair::security`].
    pub fn key_updates(&self) -> Option<u64> {
        self.worker().control().session(self.index()).map(|session| session.key_updates())
    }

    /// Tells the listening worker that the queue pair no longer answers for this attempt.
    fn forget_accepted(&self, attempt: Option<AttemptId>) {
        if let Some(attempt) = attempt {
            self.engine.first_worker().control().forget_accepted(attempt, self.shared.id);
        }
    }

    /// Returns the inline buffers and creates them if necessary. If two threads create them at the
    /// same time, one set is kept.
    fn inline_buffers(&self) -> Result<&InlineBuffers, PostError> {
        if let Some(buffers) = self.inline.get() {
            return Ok(buffers);
        }
        let (count, size) = (self.shared.sends.capacity(), self.shared.inline.size);
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
