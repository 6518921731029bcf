//! The engine: what verbs call a context.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, io};

use braid_transport::PdId;

use crate::attributes::DatapathAttributes;
use crate::clock::deadline;
use crate::config::{EngineConfig, Progress};
use crate::counters::EngineCounters;
use crate::cq::{CompletionQueue, CreateCqError};
use crate::error::EngineError;
use crate::events::AsyncEvent;
use crate::inner::EngineInner;
use crate::listener::{ListenError, Listener};
use crate::metrics::EngineMetrics;
use crate::paths_to::PathsTo;
use crate::pd::ProtectionDomain;
use crate::worker::WorkerCell;

/// One user of the network: memory regions, queue pairs and completion queues belong to it. Clones
/// are handles of the same engine; it ends when they and everything made with them are dropped,
/// which takes up to [`EngineConfig::linger`] if a peer does not confirm that a queue pair has
/// ended. Every method may be called from any thread.
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
    /// Makes an engine, with its ports open and its threads running.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let inner = Arc::new(EngineInner::new(&config)?);
        match config.progress {
            Progress::Threads(_) => inner.start_threads()?,
            Progress::Application => inner.start_attendant()?,
        }
        tracing::info!(addr = %inner.local_addr, progress = ?config.progress, "engine started");
        Ok(Engine { inner })
    }

    /// Where its first worker receives: the address to connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr
    }

    /// What its datapath offers on this machine.
    pub fn datapath_attributes(&self) -> DatapathAttributes {
        self.inner.attributes
    }

    /// A new protection domain.
    pub fn alloc_pd(&self) -> ProtectionDomain {
        let id = self.inner.next_pd.fetch_add(1, Ordering::Relaxed);
        ProtectionDomain::new(self.inner.clone(), PdId(id))
    }

    /// A completion queue for `capacity` completions.
    ///
    /// # Errors
    /// See [`CreateCqError`].
    pub fn create_cq(&self, capacity: usize) -> Result<CompletionQueue, CreateCqError> {
        CompletionQueue::new(self.inner.clone(), capacity)
    }

    /// Takes connections at [`Engine::local_addr`] from now on. Up to `backlog` of them wait to be
    /// accepted; those beyond it are told to try again, which they do until their time-out.
    ///
    /// # Errors
    /// There is a listener already, or the backlog is 0.
    pub fn listen(&self, backlog: usize) -> Result<Listener, ListenError> {
        self.listen_for(backlog, |_| true)
    }

    /// As [`Engine::listen`], but only for connections whose private data is wanted; others are
    /// refused as soon as they come, whether anybody accepts or not. `wanted` is called by whoever
    /// runs the engine, with its lock held: it must not use the engine.
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

    /// Runs the engine once: sends what is posted, takes what has arrived. For
    /// [`Progress::Application`]; does nothing where threads of the engine do that. Returns whether
    /// there was anything to do. It does not wait.
    pub fn progress(&self) -> bool {
        self.inner.progress_if_application()
    }

    /// Sends the acknowledgements that wait for a reply which they could leave with. For a process
    /// that is about to end without dropping the engine: its peers would take messages for lost
    /// that it has. Waits at most for `limit` where another thread runs the engine.
    pub fn acknowledge(&self, limit: Duration) {
        if self.inner.is_here() {
            let until = deadline(limit);
            self.inner.workers.iter().for_each(|worker| worker.acknowledge(until));
        }
    }

    /// What has happened outside of any completion (`ibv_get_async_event`): the oldest event that
    /// nobody has taken. Up to 4096 wait; what comes then is counted, see [`AsyncEvent::Missed`].
    pub fn poll_event(&self) -> Option<AsyncEvent> {
        self.inner.events.pop()
    }

    /// As [`Engine::poll_event`], but waits for one. Where the application drives the engine, this
    /// does.
    pub fn wait_event(&self, timeout: Duration) -> Option<AsyncEvent> {
        let events = &self.inner.events;
        if self.inner.application_drives() {
            return self.inner.drive(Some(timeout), || events.pop());
        }
        events.wait(timeout)
    }

    /// A descriptor that is readable while events wait, for poll, epoll and the like: then
    /// [`Engine::poll_event`] has one.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn event_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.inner.events.descriptor().map(AsFd::as_fd)
    }

    /// The paths to all destinations that have queue pairs: which of them are in use, and what each
    /// has carried. A destination appears once per rail, and per worker that sends to it.
    pub fn paths(&self) -> Vec<PathsTo> {
        let sets = |worker: &Arc<WorkerCell>| worker.control().path_sets().collect::<Vec<_>>();
        self.inner.workers.iter().flat_map(sets).collect()
    }

    /// A snapshot of its queue pairs, paths and counters. It is not of one instant: each worker is
    /// read between two of its turns, 64 queue pairs at a time. Nothing is counted for it that is
    /// not counted anyway.
    ///
    /// # Panics
    /// If a worker has panicked.
    pub fn metrics(&self) -> EngineMetrics {
        self.inner.observed().read().expect("the engine's worker panicked earlier")
    }

    /// Where its metrics are served by HTTP, if they are
    /// ([`MetricsEndpoint`](crate::MetricsEndpoint)).
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.inner.shown.as_ref()?.addr
    }

    /// What it has seen.
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
