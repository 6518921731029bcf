//! The state of an engine that every object created with it shares.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use braid_lb::HostLoads;
use braid_transport::Region;

use crate::attributes::DatapathAttributes;
use crate::clock::{Clock, deadline};
use crate::config::{EngineConfig, Progress};
use crate::config_check::check;
use crate::counters::WorkerCounters;
use crate::datapaths::{EnginePlan, Opening};
use crate::error::EngineError;
use crate::events::AsyncEvents;
use crate::fork::Origin;
use crate::memory::RegionTable;
use crate::metrics::Observed;
use crate::observe::{self, Registration};
use crate::qp_numbers::{QpNumber, QpNumbers};
use crate::random;
use crate::signals::Signals;
use crate::threads::spawn_without_signals;
use crate::verbs::Device;
use crate::worker::{
    LocalRails, PathPlan, PollActivity, SetUpPlan, WorkerCell, WorkerControl, WorkerParts, attend,
};

/// The state of an engine that every object created with it shares. Workers and their threads do
/// not, so the last handle that is dropped ends them.
pub(crate) struct EngineInner {
    pub(crate) regions: RegionTable,
    clock: Clock,
    pub(crate) workers: Vec<Arc<WorkerCell>>,
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
    pub(crate) events: Arc<AsyncEvents>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    progress: Progress,
    /// The polling activity of an application that drives the engine.
    activity: Arc<PollActivity>,
    /// The process of the engine. The application does not drive it in any other.
    origin: Origin,
    spin: Duration,
    pub(crate) peer_timeout: Duration,
    linger: Duration,
    pub(crate) local_addr: SocketAddr,
    /// The attributes of the first worker, which are those of all workers.
    pub(crate) attributes: DatapathAttributes,
    pub(crate) next_pd: AtomicU32,
    next_srq: AtomicU32,
    next_worker: AtomicUsize,
    qp_numbers: Mutex<QpNumbers>,
    /// The loads of each rail, of all workers.
    host_loads: Arc<HostLoads>,
    /// The registration with the metrics servers.
    pub(crate) shown: Option<Registration>,
    /// The devices of the verbs datapath, by rail.
    devices: Vec<Arc<Device>>,
}

impl EngineInner {
    pub(crate) fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let count = check(config)?;
        let regions = RegionTable::new();
        let (clock, instance) = (Clock::start(), random::number());
        let mut engine = EngineInner {
            clock,
            workers: Vec::new(),
            counters: Vec::new(),
            events: Arc::default(),
            threads: Mutex::default(),
            stop: Arc::default(),
            progress: config.progress,
            activity: Arc::new(PollActivity::new(config.spin).map_err(EngineError::System)?),
            origin: Origin::here(),
            spin: config.spin,
            peer_timeout: config.peer_timeout,
            linger: config.linger,
            local_addr: config.bind,
            attributes: DatapathAttributes::default(),
            next_pd: AtomicU32::new(1),
            next_srq: AtomicU32::new(1),
            next_worker: AtomicUsize::new(0),
            qp_numbers: Mutex::default(),
            host_loads: Arc::default(),
            shown: None,
            devices: config.datapath.prepare(&EnginePlan {
                rails: rails(config).collect(),
                paths: config.paths,
                workers: count,
                faults: config.faults,
            })?,
            regions,
        };
        for index in 0..count {
            engine.add_worker(config, index, instance)?;
        }
        engine.shown = observe::register(config.metrics, || engine.observed())?;
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
        let open = |(rail, ip)| {
            // Only the port of the first worker's first rail is known in advance.
            let port = if index == 0 && rail == 0 { config.bind.port() } else { 0 };
            let mut addr = config.bind;
            addr.set_ip(ip);
            addr.set_port(port);
            config.datapath.open(&Opening {
                addr,
                second_addr: config.second_addr,
                worker: index,
                rail,
                paths: config.paths,
                mtu: config.mtu,
                receive_buffer: config.receive_buffer,
                discover: config.discover,
                faults: config.faults,
                device: self.devices.get(rail),
                counters: &counters,
                signals: &signals,
            })
        };
        let rails = LocalRails::new(rails(config).enumerate().map(open).collect::<Result<_, _>>()?);
        let caps = rails.caps();
        if index == 0 {
            self.local_addr = rails.first().local_addr();
            self.attributes = caps.into();
        }
        let parts = WorkerParts {
            plan: SetUpPlan {
                instance,
                mtu: config.mtu.unwrap_or(caps.segment),
                crc: config.crc,
                ping_interval: config.ping_interval,
                peer_timeout: config.peer_timeout,
                withholding_key: random::bytes(),
            },
            security: config.security.clone().map(Arc::new),
            rails,
            clock: self.clock,
            paths: PathPlan {
                policy: config.lb,
                rail_policy: config.rail_policy,
                host: self.host_loads.clone(),
                count: config.paths,
                seed: config.seed.wrapping_add((index as u64) << 32),
                discover: config.discover,
            },
            signals,
            activity: self.activity.clone(),
            counters: counters.clone(),
            events: self.events.clone(),
            regions: self.regions.cache(),
        };
        self.counters.push(counters);
        self.workers.push(Arc::new(WorkerCell::new(parts)));
        Ok(())
    }

    pub(crate) fn start_threads(&self) -> Result<(), EngineError> {
        for (index, worker) in self.workers.iter().enumerate() {
            let (worker, stop, spin) = (worker.clone(), self.stop.clone(), self.spin);
            let stopped = move || stop.load(Ordering::Acquire).then_some(());
            let run = move || worker.drive(spin, None, stopped).unwrap_or(());
            let thread = thread::Builder::new().name(format!("braid-{index}"));
            let thread = spawn_without_signals(thread, run);
            self.threads().push(thread.map_err(EngineError::System)?);
        }
        Ok(())
    }

    /// Starts the thread that runs the worker while the application does not.
    pub(crate) fn start_attendant(&self) -> Result<(), EngineError> {
        let (worker, activity) = (self.workers[0].clone(), self.activity.clone());
        let (stop, spin) = (self.stop.clone(), self.spin);
        let run = move || attend(&worker, &activity, spin, &stop);
        let thread = thread::Builder::new().name("braid-attendant".to_owned());
        let thread = spawn_without_signals(thread, run);
        self.threads().push(thread.map_err(EngineError::System)?);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The clock of all workers.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Stops all workers until the result is dropped. A worker that has panicked makes no progress
    /// anyway.
    pub(crate) fn exclude_workers(&self) -> Vec<Option<WorkerControl<'_>>> {
        self.workers.iter().map(|worker| worker.try_control()).collect()
    }

    pub(crate) fn worker(&self, index: usize) -> &WorkerCell {
        &self.workers[index]
    }

    /// The sources of the engine's metrics.
    pub(crate) fn observed(&self) -> Observed {
        Observed {
            local_addr: self.local_addr,
            clock: self.clock,
            workers: self.workers.clone(),
            counters: self.counters.clone(),
        }
    }

    /// The worker that listens.
    pub(crate) fn first_worker(&self) -> &WorkerCell {
        &self.workers[0]
    }

    /// The worker for the next queue pair.
    pub(crate) fn next_worker(&self) -> usize {
        self.next_worker.fetch_add(1, Ordering::Relaxed) % self.workers.len()
    }

    pub(crate) fn take_srq_number(&self) -> u32 {
        self.next_srq.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn take_qp_number(&self) -> Option<QpNumber> {
        self.qp_numbers().take()
    }

    pub(crate) fn give_back_qp_number(&self, number: QpNumber) {
        self.qp_numbers().give_back(number);
    }

    fn qp_numbers(&self) -> MutexGuard<'_, QpNumbers> {
        self.qp_numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn application_drives(&self) -> bool {
        self.progress == Progress::Application && self.is_here()
    }

    /// Whether the engine belongs to this process. A forked child has a copy of its parent's engine
    /// without the threads, and with locks that may be held for good by threads that the child does
    /// not have. Objects that the child drops must not use it.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    pub(crate) fn progress_if_application(&self) -> bool {
        if !self.application_drives() {
            return false;
        }
        self.activity.has_polled();
        self.first_worker().try_progress()
    }

    /// Records that the application is about to wait for a descriptor.
    pub(crate) fn application_waits(&self) {
        self.activity.ends();
    }

    /// Runs the engine, if the application drives it, until `done` returns a result or the limit
    /// has passed.
    pub(crate) fn drive<T>(
        &self,
        limit: Option<Duration>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let until = limit.map(deadline);
        self.activity.during(|| self.first_worker().drive(self.spin, until, done))
    }

    /// The RDMA devices that place payloads, by rail. Datapaths without devices have none.
    pub(crate) fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// Removes a region. When the call returns, the engine no longer accesses its memory.
    pub(crate) fn deregister(&self, key: u32) {
        self.regions.remove(key);
        self.forget_memory();
    }

    /// Replaces the region of a key. When the call returns, the engine no longer accesses the
    /// earlier memory.
    pub(crate) fn reregister(&self, key: u32, region: Region) {
        self.regions.replace(key, region);
        self.forget_memory();
    }

    fn forget_memory(&self) {
        // A worker uses one snapshot of the table while it is locked. After it was locked once, it
        // no longer has the earlier one.
        for worker in &self.workers {
            worker.control().forget_memory();
        }
    }

    /// Waits for a limited time until the peers know the ended queue pairs.
    fn wait_for_peers(&self) {
        let told = || !self.workers.iter().any(|worker| worker.is_disconnecting());
        let until = deadline(self.linger);
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

/// The address of each rail.
fn rails(config: &EngineConfig) -> impl Iterator<Item = IpAddr> {
    std::iter::once(config.bind.ip()).chain(config.rails.iter().copied())
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        if !self.is_here() {
            // The threads and the metrics server run in the parent. Joining a thread here would
            // panic, and a wake-up would reach the parent's threads through the shared descriptors.
            std::mem::forget(self.shown.take());
            self.threads().drain(..).for_each(std::mem::forget);
            return;
        }
        self.shown = None;
        self.wait_for_peers();
        self.stop.store(true, Ordering::Release);
        self.activity.stops();
        self.workers.iter().for_each(|worker| worker.signals().wake());
        for thread in self.threads().drain(..) {
            // A worker that panicked has reported that already.
            let _ = thread.join();
        }
        tracing::info!(addr = %self.local_addr, "engine stopped");
    }
}
