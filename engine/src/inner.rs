//! The state of an engine that every object created with it shares.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use braid_lb::HostLoads;
use braid_transport::{PdId, Region};
use braid_wire::DEFAULT_PORT;

use crate::attributes::DatapathAttributes;
use crate::clock::{Clock, deadline};
use crate::config::EngineConfig;
use crate::config_check::check;
use crate::counters::WorkerCounters;
use crate::cuda::{self, Context, CudaError};
use crate::datapaths::{Datapath, EnginePlan, Opening, RocePlace};
use crate::drivers::Drivers;
use crate::error::EngineError;
use crate::events::AsyncEvents;
use crate::fork::Origin;
use crate::memory::RegionTable;
use crate::metrics::Observed;
use crate::observe::{self, Registration};
use crate::qp_numbers::{QpNumber, QpNumbers};
use crate::random;
use crate::roce_port::RocePorts;
use crate::signals::Signals;
use crate::verbs::Device;
use crate::worker::{
    LocalRails, PathPlan, RoceAddrs, SetUpPlan, WorkerCell, WorkerControl, WorkerParts,
};

/// The state of an engine that every object created with it shares. Workers and their threads do
/// not, so the last handle that is dropped ends them.
pub(crate) struct EngineInner {
    pub(crate) regions: RegionTable,
    clock: Clock,
    pub(crate) workers: Vec<Arc<WorkerCell>>,
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
    pub(crate) events: Arc<AsyncEvents>,
    drivers: Drivers,
    /// The process of the engine. The application does not drive it in any other.
    origin: Origin,
    pub(crate) peer_timeout: Duration,
    linger: Duration,
    pub(crate) local_addr: SocketAddr,
    /// The attributes of the first worker, which are those of all workers.
    pub(crate) attributes: DatapathAttributes,
    numbers: Numbers,
    /// The registration with the metrics servers.
    pub(crate) shown: Option<Registration>,
    /// The devices of the verbs datapath, by rail.
    devices: Vec<Arc<Device>>,
}

/// The numbers of the next objects.
struct Numbers {
    pd: AtomicU32,
    srq: AtomicU32,
    /// The index of the worker for the next queue pair, modulo their number.
    worker: AtomicUsize,
    qps: Mutex<QpNumbers>,
}

impl Default for Numbers {
    fn default() -> Self {
        let [pd, srq] = [1, 1].map(AtomicU32::new);
        Numbers { pd, srq, worker: AtomicUsize::new(0), qps: Mutex::default() }
    }
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
            drivers: Drivers::new(config)?,
            origin: Origin::here(),
            peer_timeout: config.peer_timeout,
            linger: config.linger,
            local_addr: config.bind,
            attributes: DatapathAttributes::default(),
            numbers: Numbers::default(),
            shown: None,
            devices: config.datapath.prepare(&EnginePlan {
                rails: rails(config).collect(),
                paths: config.paths,
                workers: count,
                faults: config.faults,
            })?,
            regions,
        };
        // The loads of each rail, of all workers.
        let loads = Arc::<HostLoads>::default();
        for index in 0..count {
            engine.add_worker(config, index, instance, &loads)?;
        }
        engine.shown = observe::register(config.metrics, || engine.observed())?;
        Ok(engine)
    }

    fn add_worker(
        &mut self,
        config: &EngineConfig,
        index: usize,
        instance: u64,
        loads: &Arc<HostLoads>,
    ) -> Result<(), EngineError> {
        let counters = Arc::new(WorkerCounters::default());
        let signals = Arc::new(Signals::new().map_err(EngineError::System)?);
        let ports = Arc::<RocePorts>::default();
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
                roce: RocePlace::Rail(&ports),
            })
        };
        let rails = LocalRails::new(rails(config).enumerate().map(open).collect::<Result<_, _>>()?);
        let caps = rails.caps();
        if index == 0 {
            self.local_addr = rails.first().local_addr();
            self.attributes = DatapathAttributes::new(caps[0], config.datapath.protocols());
        }
        let roce = roce_addrs(config, ports, &counters, &signals);
        let parts = WorkerParts {
            plan: SetUpPlan {
                instance,
                mtu: config.mtu,
                quantum: config.lb.quantum(config.quantum),
                crc: config.crc,
                protocols: config.datapath.protocols(),
                ping_interval: config.ping_interval,
                peer_timeout: config.peer_timeout,
                skip_key: random::bytes(),
            },
            security: config.security.clone().map(Arc::new),
            rails,
            clock: self.clock,
            paths: PathPlan {
                policy: config.lb,
                rail_policy: config.rail_policy,
                host: loads.clone(),
                count: config.paths,
                seed: config.seed.wrapping_add((index as u64) << 32),
                discover: config.discover,
                groups: config.destination_groups.clone(),
            },
            signals,
            activity: self.drivers.activity().clone(),
            counters: counters.clone(),
            events: self.events.clone(),
            regions: self.regions.cache(),
            roce,
        };
        self.counters.push(counters);
        self.workers.push(Arc::new(WorkerCell::new(parts)));
        Ok(())
    }

    /// Starts the threads of the engine.
    pub(crate) fn start(&self) -> Result<(), EngineError> {
        self.drivers.start(&self.workers)
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
        self.numbers.worker.fetch_add(1, Ordering::Relaxed) % self.workers.len()
    }

    pub(crate) fn take_pd_number(&self) -> PdId {
        PdId(self.numbers.pd.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn take_srq_number(&self) -> u32 {
        self.numbers.srq.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn take_qp_number(&self) -> Option<QpNumber> {
        self.qp_numbers().take()
    }

    pub(crate) fn give_back_qp_number(&self, number: QpNumber) {
        self.qp_numbers().give_back(number);
    }

    fn qp_numbers(&self) -> MutexGuard<'_, QpNumbers> {
        self.numbers.qps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn application_drives(&self) -> bool {
        self.drivers.is_application() && self.is_here()
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
        self.drivers.activity().has_polled();
        self.first_worker().try_progress()
    }

    /// Records that the application is about to wait for a descriptor.
    pub(crate) fn application_waits(&self) {
        self.drivers.activity().ends();
    }

    /// Runs the engine, if the application drives it, until `done` returns a result or the limit
    /// has passed.
    pub(crate) fn drive<T>(
        &self,
        limit: Option<Duration>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.drivers.drive(self.first_worker(), limit.map(deadline), done)
    }

    /// The RDMA devices that place payloads, by rail. Datapaths without devices have none.
    pub(crate) fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// Prepares all workers for device memory of another context.
    pub(crate) fn add_context(&self, context: &Arc<Context>) -> Result<(), CudaError> {
        for worker in &self.workers {
            worker.control().add_context(context)?;
        }
        Ok(())
    }

    /// Removes a region. When the call returns, the engine no longer accesses its memory.
    pub(crate) fn deregister(&self, key: u32) {
        let is_device = self.is_device(key);
        self.regions.remove(key);
        self.forget_memory(is_device);
    }

    /// Replaces the region of a key. When the call returns, the engine no longer accesses the
    /// earlier memory.
    pub(crate) fn reregister(&self, key: u32, region: Region) {
        let is_device = self.is_device(key);
        self.regions.replace(key, region);
        self.forget_memory(is_device);
    }

    fn is_device(&self, key: u32) -> bool {
        self.regions.load().get(key).is_some_and(|region| cuda::is_device(region.addr))
    }

    /// Makes all workers forget memory that has left the table. `is_device`: it is device memory.
    fn forget_memory(&self, is_device: bool) {
        // A worker uses one snapshot of the table while it is locked. After it was locked once, it
        // no longer has the earlier one.
        for worker in &self.workers {
            worker.control().forget_memory(is_device);
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

/// The addresses at which a worker can receive RoCEv2 packets. It opens UDP port 4791 of the
/// engine's addresses if a peer sends there, or joins the processes that have it.
fn roce_addrs(
    config: &EngineConfig,
    ports: Arc<RocePorts>,
    counters: &Arc<WorkerCounters>,
    signals: &Arc<Signals>,
) -> RoceAddrs {
    let (addr, second) = (SocketAddr::new(config.bind.ip(), DEFAULT_PORT), config.second_addr);
    let (receive_buffer, faults) = (config.receive_buffer, config.faults);
    let (counters, signals, opened_ports) = (counters.clone(), signals.clone(), ports.clone());
    let open = move || {
        let opened = Datapath::Udp.open(&Opening {
            addr,
            second_addr: second,
            worker: 0,
            rail: 0,
            paths: 0,
            mtu: None,
            receive_buffer,
            discover: false,
            faults,
            device: None,
            counters: &counters,
            signals: &signals,
            roce: RocePlace::Port(&opened_ports),
        });
        opened.map_err(|error| match error {
            EngineError::Bind { source, .. } => source,
            error => io::Error::other(error),
        })
    };
    RoceAddrs { second, open: Box::new(open), ports }
}

/// The address of each rail.
fn rails(config: &EngineConfig) -> impl Iterator<Item = IpAddr> {
    std::iter::once(config.bind.ip()).chain(config.rails.iter().copied())
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        if !self.is_here() {
            // The threads and the metrics server run in the parent. A wake-up would reach the
            // parent's threads through the shared descriptors.
            std::mem::forget(self.shown.take());
            self.drivers.forget();
            return;
        }
        self.shown = None;
        self.wait_for_peers();
        self.drivers.stop(&self.workers);
        tracing::info!(addr = %self.local_addr, "engine stopped");
    }
}
