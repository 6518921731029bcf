//! The engine: what verbs call a context.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use braid_lb::{PathReport, PathSet};
use braid_transport::PdId;
use braid_wire::{MAX_RAILS, QpId};

use crate::attributes::DatapathAttributes;
use crate::clock::Clock;
use crate::config::{Datapath, EngineConfig, MAX_WORKERS, Progress};
use crate::counters::{EngineCounters, WorkerCounters};
use crate::cq::{CompletionQueue, CreateCqError};
use crate::datapath::{self, Opening};
use crate::error::EngineError;
use crate::listener::{ListenError, Listener};
use crate::memory::RegionTable;
use crate::pd::ProtectionDomain;
use crate::qp_numbers::QpNumbers;
use crate::random;
use crate::signals::Signals;
use crate::verbs::Device;
use crate::worker::{PathPlan, SetUpPlan, WorkerCell, WorkerParts, attend};

/// One user of the network: memory regions, queue pairs and completion queues belong to it. Clones
/// are handles of the same engine; it ends when they and everything made with them are dropped,
/// which takes up to [`EngineConfig::linger`] if a peer does not confirm that a queue pair has ended.
/// Every method may be called from any thread.
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

    /// As [`Engine::listen`], but only for connections whose private data is wanted; others are refused as soon as they
    /// come, whether anybody accepts or not. `wanted` is called by whoever runs the engine, with its lock held: it
    /// must not use the engine.
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

    /// The paths to all destinations that have queue pairs: which of them are in use, and what each
    /// has carried. A destination appears once per rail, and per worker that sends to it.
    pub fn paths(&self) -> Vec<PathsTo> {
        let sets = |worker: &Arc<WorkerCell>| worker.control().path_sets().collect::<Vec<_>>();
        self.inner.workers.iter().flat_map(sets).collect()
    }

    /// What it has seen.
    pub fn counters(&self) -> EngineCounters {
        let mut sum = EngineCounters::default();
        self.inner.workers.iter().for_each(|worker| worker.control().publish_losses());
        self.inner.counters.iter().for_each(|worker| worker.add_to(&mut sum));
        sum
    }
}

/// The paths to one destination on one rail, as one worker of an engine sees them.
#[derive(Clone, Debug)]
pub struct PathsTo {
    /// The destination.
    pub ip: IpAddr,
    /// The rail: 0 is the one over which connections are set up.
    pub rail: usize,
    /// Its paths, by number.
    pub paths: Vec<PathReport>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("local_addr", &self.local_addr()).finish()
    }
}

/// What everything made with an engine holds on to. Workers and their threads do not, so the last
/// handle that goes ends them.
pub(crate) struct EngineInner {
    pub(crate) regions: RegionTable,
    clock: Clock,
    workers: Vec<Arc<WorkerCell>>,
    counters: Vec<Arc<WorkerCounters>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    progress: Progress,
    spin: Duration,
    pub(crate) peer_timeout: Duration,
    linger: Duration,
    local_addr: SocketAddr,
    /// Of its first worker; the others have the same.
    attributes: DatapathAttributes,
    next_pd: AtomicU32,
    next_worker: AtomicUsize,
    qp_numbers: Mutex<QpNumbers>,
    /// Of the verbs datapath.
    device: Option<Arc<Device>>,
}

impl EngineInner {
    fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let count = check(config)?;
        let regions = RegionTable::new();
        let (clock, instance) = (Clock::start(), random::number());
        let mut engine = EngineInner {
            clock,
            workers: Vec::new(),
            counters: Vec::new(),
            threads: Mutex::default(),
            stop: Arc::default(),
            progress: config.progress,
            spin: config.spin,
            peer_timeout: config.peer_timeout,
            linger: config.linger,
            local_addr: config.bind,
            attributes: DatapathAttributes::default(),
            next_pd: AtomicU32::new(1),
            next_worker: AtomicUsize::new(0),
            qp_numbers: Mutex::default(),
            device: datapath::open_device(config)?,
            regions,
        };
        for index in 0..count {
            engine.add_worker(config, index, instance)?;
        }
        Ok(engine)
    }

    fn add_worker(
        &mut self,
        config: &EngineConfig,
        index: usize,
        instance: u64,
    ) -> Result<(), EngineError> {
        let counters = Arc::new(WorkerCounters::default());
        let signals = Arc::new(Signals::new().map_err(EngineError::System)?);
        let device = self.device.as_ref();
        let opening =
            |rail| Opening { config, index, rail, device, counters: &counters, signals: &signals };
        let rails: Vec<_> = (0..=config.rails.len())
            .map(|rail| datapath::open(opening(rail)))
            .collect::<Result<_, _>>()?;
        if index == 0 {
            self.local_addr = rails[0].local_addr();
            self.attributes = rails[0].caps().into();
        }
        let parts = WorkerParts {
            plan: SetUpPlan {
                instance,
                mtu: config.mtu.unwrap_or(rails[0].caps().segment),
                crc: config.crc,
                ping_interval: config.ping_interval,
                peer_timeout: config.peer_timeout,
                withholding_key: random::bytes(),
            },
            rails,
            clock: self.clock,
            paths: PathPlan {
                policy: config.lb,
                rail_policy: config.rail_policy,
                count: config.paths,
                seed: config.seed.wrapping_add((index as u64) << 32),
                discover: config.discover,
            },
            signals,
            counters: counters.clone(),
            regions: self.regions.cache(),
        };
        self.counters.push(counters);
        self.workers.push(Arc::new(WorkerCell::new(parts)));
        Ok(())
    }

    fn start_threads(&self) -> Result<(), EngineError> {
        for (index, worker) in self.workers.iter().enumerate() {
            let (worker, stop, spin) = (worker.clone(), self.stop.clone(), self.spin);
            let stopped = move || stop.load(Ordering::Acquire).then_some(());
            let run = move || worker.drive(spin, None, stopped).unwrap_or(());
            let thread = thread::Builder::new().name(format!("braid-{index}")).spawn(run);
            self.threads().push(thread.map_err(EngineError::System)?);
        }
        Ok(())
    }

    /// Where the application runs the worker, somebody has to while it does not.
    fn start_attendant(&self) -> Result<(), EngineError> {
        let (worker, stop) = (self.workers[0].clone(), self.stop.clone());
        let thread = thread::Builder::new().name("braid-attendant".to_owned());
        let thread = thread.spawn(move || attend(&worker, &stop)).map_err(EngineError::System)?;
        self.threads().push(thread);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// That of all its workers.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn worker(&self, index: usize) -> &WorkerCell {
        &self.workers[index]
    }

    /// The one that listens.
    pub(crate) fn first_worker(&self) -> &WorkerCell {
        &self.workers[0]
    }

    /// The worker for the next queue pair.
    pub(crate) fn next_worker(&self) -> usize {
        self.next_worker.fetch_add(1, Ordering::Relaxed) % self.workers.len()
    }

    pub(crate) fn take_qp_number(&self) -> Option<QpId> {
        self.qp_numbers().take()
    }

    pub(crate) fn give_back_qp_number(&self, id: QpId) {
        self.qp_numbers().give_back(id);
    }

    fn qp_numbers(&self) -> MutexGuard<'_, QpNumbers> {
        self.qp_numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn application_drives(&self) -> bool {
        self.progress == Progress::Application
    }

    pub(crate) fn progress_if_application(&self) -> bool {
        self.application_drives() && self.first_worker().try_progress()
    }

    /// Runs the engine, where the application does, until `done` gives a result or the time is over.
    pub(crate) fn drive<T>(
        &self,
        limit: Option<Duration>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let until = limit.map(|limit| Instant::now() + limit);
        self.first_worker().drive(self.spin, until, done)
    }

    pub(crate) fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref()
    }

    /// Removes a region; when this returns, nothing of the engine touches its memory.
    pub(crate) fn deregister(&self, key: u32) {
        self.regions.remove(key);
        // A worker uses one snapshot of the table for as long as it is locked, so having been
        // locked once means having let go of the old one.
        for worker in &self.workers {
            worker.control().forget_memory();
        }
    }

    /// Waits until the peers know which queue pairs have ended, for a limited time.
    fn wait_for_peers(&self) {
        let told = || !self.workers.iter().any(|worker| worker.is_disconnecting());
        let until = Instant::now() + self.linger;
        if told() {
            return;
        }
        if self.application_drives() {
            self.drive(Some(self.linger), || told().then_some(()));
            return;
        }
        while !told() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        self.wait_for_peers();
        self.stop.store(true, Ordering::Release);
        self.workers.iter().for_each(|worker| worker.signals().wake());
        for thread in self.threads().drain(..) {
            thread.thread().unpark();
            // A worker that panicked has said so already.
            let _ = thread.join();
        }
        tracing::info!(addr = %self.local_addr, "engine stopped");
    }
}

/// The number of workers.
fn check(config: &EngineConfig) -> Result<usize, EngineError> {
    config.faults.validate()?;
    PathSet::new(config.lb, config.paths, config.seed)?;
    if config.discover && !matches!(config.datapath, Datapath::Udp) {
        return Err(EngineError::Discover);
    }
    check_rails(config)?;
    if config.mtu == Some(0) {
        return Err(EngineError::Mtu);
    }
    match config.progress {
        Progress::Application => Ok(1),
        Progress::Threads(count) if (1..=MAX_WORKERS).contains(&count) => Ok(count),
        Progress::Threads(count) => Err(EngineError::Threads { count }),
    }
}

fn check_rails(config: &EngineConfig) -> Result<(), EngineError> {
    let rails: Vec<IpAddr> =
        std::iter::once(config.bind.ip()).chain(config.rails.clone()).collect();
    let refused = |why| Err(EngineError::Rails { rails: rails.clone(), why });
    if rails.len() == 1 {
        return Ok(());
    }
    if rails.len() > MAX_RAILS {
        return refused("there are at most 8");
    }
    if matches!(config.datapath, Datapath::Verbs(_)) {
        return refused(
            "over verbs an engine has one rail, its device; give further rails over UDP only",
        );
    }
    if rails.iter().any(|rail| rail.is_unspecified()) {
        return refused("each needs an address of its own, `bind` too");
    }
    if rails.iter().any(|rail| rail.is_ipv4() != rails[0].is_ipv4()) {
        return refused("take IPv4 addresses only, or IPv6 addresses only");
    }
    if (1..rails.len()).any(|index| rails[..index].contains(&rails[index])) {
        return refused("each address is one rail");
    }
    Ok(())
}
