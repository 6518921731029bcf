//! The engine, the context in verbs terms.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::attributes::DatapathAttributes;
use crate::clock::deadline;
use crate::config::EngineConfig;
use crate::counters::EngineCounters;
use crate::cq::{CompletionQueue, CreateCqError};
use crate::error::EngineError;
use crate::events::AsyncEvent;
use crate::gsi::RoceGsi;
use crate::inner::EngineInner;
use crate::listener::{ListenError, Listener};
use crate::metrics::EngineMetrics;
use crate::paths_to::PathsTo;
use crate::pd::ProtectionDomain;
use crate::roce::{RoceError, RocePort};
use crate::roce_ud::{RoceUd, RoceUdOptions};
use crate::worker::WorkerCell;

/// A user of the network that owns memory regions, queue pairs and completion queues. Clones are
/// handles of the same engine. The engine ends when the last handle, and the last object created
/// with it, is dropped. That takes up to [`EngineConfig::linger`] if a peer does not confirm the
/// end of a queue pair. Any thread may call any method.
///
/// ```
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1024)?);
/// let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
/// println!("receives at {}; {:?}", engine.local_addr(), engine.datapath_attributes());
/// drop((qp, cq, pd));
/// assert_eq!(engine.metrics().queue_pairs.len(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineInner>,
}

impl Engine {
    /// Creates an engine, opens its ports and starts its threads.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let inner = Arc::new(EngineInner::new(&config)?);
        inner.start()?;
        tracing::info!(addr = %inner.local_addr, progress = ?config.progress, "engine started");
        Ok(Engine { inner })
    }

    /// The receiving address of the first worker, to which peers connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr
    }

    /// The capabilities of the datapath on this machine.
    pub fn datapath_attributes(&self) -> DatapathAttributes {
        self.inner.attributes
    }

    /// Creates a protection domain.
    pub fn alloc_pd(&self) -> ProtectionDomain {
        ProtectionDomain::new(self.inner.clone(), self.inner.take_pd_number())
    }

    /// Creates a completion queue for `capacity` completions.
    ///
    /// # Errors
    /// See [`CreateCqError`].
    pub fn create_cq(&self, capacity: usize) -> Result<CompletionQueue, CreateCqError> {
        CompletionQueue::new(self.inner.clone(), capacity)
    }

    /// Returns this engine's end of connections that speak plain RoCEv2 to a peer at `remote`. The
    /// peer has to be told. If the peer sends to UDP port 4791 and the engine receives elsewhere,
    /// this opens port 4791 too, until the engine ends. Other processes of this user may share
    /// that port. Queue pairs of further threads receive at other ports.
    ///
    /// # Errors
    /// See [`RoceError`].
    pub fn roce_port(&self, remote: SocketAddr) -> Result<RocePort, RoceError> {
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        self.inner.first_worker().roce_port(remote)
    }

    /// Opens queue pair 1 of RoCEv2 (GSI), to which peers send management datagrams, at UDP port
    /// 4791, as [`Engine::roce_port`] does.
    ///
    /// # Errors
    /// See [`RoceError`].
    pub fn roce_gsi(&self) -> Result<RoceGsi, RoceError> {
        RoceGsi::open(self.inner.clone())
    }

    /// Opens a queue pair of the unreliable datagram (UD) service of plain RoCEv2. If `port` is
    /// 4791, the UDP port of RoCEv2, it receives there, as [`Engine::roce_port`] says. Otherwise it
    /// receives at [`Engine::local_addr`], to which only another engine can send.
    ///
    /// # Errors
    /// See [`RoceError`].
    pub fn roce_ud(&self, port: u16, options: &RoceUdOptions) -> Result<RoceUd, RoceError> {
        RoceUd::open(self.inner.clone(), port, options)
    }

    /// Listens for connections at [`Engine::local_addr`]. Up to `backlog` requests wait to be
    /// accepted. Further requests are told to try again, and do so until their time-out.
    ///
    /// # Errors
    /// The engine has a listener already, or `backlog` is 0.
    pub fn listen(&self, backlog: usize) -> Result<Listener, ListenError> {
        self.listen_for(backlog, |_| true)
    }

    /// Listens for connections whose private data `wanted` approves, see [`Engine::listen`]. Other
    /// requests are rejected when they arrive. The thread that runs the engine calls `wanted` and
    /// holds a lock, so `wanted` must not use the engine.
    ///
    /// # Errors
    /// As for [`Engine::listen`].
    pub fn listen_for(
        &self,
        backlog: usize,
        wanted: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Result<Listener, ListenError> {
        Listener::new(self.inner.clone(), backlog, Box::new(wanted))
    }

    /// Runs the engine once: sends posted work and takes arrived packets, without blocking. Returns
    /// whether there was anything to do. The call is for
    /// [`Progress::Application`](crate::Progress::Application). If threads of the engine run the
    /// protocol, the call does nothing.
    pub fn progress(&self) -> bool {
        self.inner.progress_if_application()
    }

    /// Sends the acknowledgements that wait for a reply to leave with, and the segments that wait
    /// for an acknowledgement. A process that exits without dropping the engine calls this, because
    /// its peers would otherwise consider messages lost that it has received. So does an
    /// application that drives the engine before it does something else for some milliseconds.
    /// Waits up to `limit` if another thread runs the engine.
    pub fn acknowledge(&self, limit: Duration) {
        if self.inner.is_here() {
            let until = deadline(limit);
            self.inner.workers.iter().for_each(|worker| worker.acknowledge(until));
        }
    }

    /// Takes the oldest asynchronous event (`ibv_get_async_event`). Up to 4096 events wait. Further
    /// events are only counted, see [`AsyncEvent::Missed`].
    pub fn poll_event(&self) -> Option<AsyncEvent> {
        self.inner.events.pop()
    }

    /// Waits for the next event, see [`Engine::poll_event`]. If the application drives the engine,
    /// the wait drives it.
    pub fn wait_event(&self, timeout: Duration) -> Option<AsyncEvent> {
        let events = &self.inner.events;
        if self.inner.application_drives() {
            return self.inner.drive(Some(timeout), || events.pop());
        }
        events.wait(timeout)
    }

    /// A descriptor for poll, epoll and similar calls. It is readable while [`Engine::poll_event`]
    /// has an event.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn event_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.inner.events.descriptor().map(AsFd::as_fd)
    }

    /// The paths to all destinations that have queue pairs: whether each path is in use, and its
    /// traffic. A destination appears once for each rail and for each worker that sends to it.
    pub fn paths(&self) -> Vec<PathsTo> {
        let sets = |worker: &Arc<WorkerCell>| worker.control().path_sets().collect::<Vec<_>>();
        self.inner.workers.iter().flat_map(sets).collect()
    }

    /// A snapshot of the queue pairs, paths and counters. The snapshot is not of one instant: it
    /// reads each worker between two turns, 64 queue pairs at a time. It adds no counting to the
    /// hot path.
    ///
    /// # Panics
    /// Panics if a worker has panicked.
    pub fn metrics(&self) -> EngineMetrics {
        self.inner.observed().read().expect("the engine's worker panicked earlier")
    }

    /// The HTTP address of the metrics, if they are served
    /// ([`MetricsEndpoint`](crate::MetricsEndpoint)).
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.inner.shown.as_ref()?.addr
    }

    /// The counters of all workers together.
    pub fn counters(&self) -> EngineCounters {
        let mut sum = EngineCounters::default();
        self.inner.workers.iter().for_each(|worker| worker.control().publish_losses());
        self.inner.counters.iter().for_each(|worker| worker.add_to(&mut sum));
        sum
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("local_addr", &self.local_addr()).finish()
    }
}
