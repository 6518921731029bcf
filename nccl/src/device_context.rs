//! An open device: one engine with its listener, shared by all communicators of the device. It ends
//! with the last of them, so nothing runs for a closed plugin.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid::{
    CompletionQueue, ConnectionRequest, Engine, EngineConfig, Listener, MetricsEndpoint, Origin,
    Progress, ProtectionDomain, QpOptions, QpState, QueuePair,
};

use crate::closing::ClosingEngine;
use crate::config::Config;
use crate::device::Device;
use crate::error::Error;
use crate::greeting::any_wanted_listener;
use crate::memory::RegionCache;
use crate::progress_thread::ProgressThread;

/// Maximum number of connections that wait to be accepted. Other initiators retry.
const BACKLOG: usize = 1024;

/// An open device; see the module.
pub(crate) struct DeviceContext {
    // First, so that it ends before the engine that it drives.
    /// Present if polling threads drive the engine.
    progress_thread: Option<ProgressThread>,
    pub(crate) device: usize,
    pub(crate) regions: RegionCache,
    pd: ProtectionDomain,
    config: Config,
    listener: Listener,
    /// The listening communicators. The lock is not held during calls of the engine.
    listening: Arc<Mutex<HashSet<u64>>>,
    waiting: Mutex<Waiting>,
    origin: Origin,
    // Last, so that this is the last handle of the engine.
    engine: ClosingEngine,
}

/// Connection requests by the listening communicator.
type Waiting = HashMap<u64, VecDeque<ConnectionRequest>>;

impl DeviceContext {
    pub(crate) fn open(device: &Device, config: &Config) -> Result<Self, Error> {
        let (progress, spin) = match config.threads {
            // The progress thread covers idle times, so it sleeps as soon as there is no work.
            0 => (Progress::Application, Duration::ZERO),
            threads => (Progress::Threads(threads), config.spin),
        };
        let engine = Engine::new(EngineConfig {
            datapath: device.datapath.clone(),
            bind: device.addr,
            second_addr: None,
            rails: device.further_rails.clone(),
            rail_policy: config.paths.rail_policy,
            progress,
            paths: device.paths(config),
            lb: config.paths.lb,
            quantum: config.paths.quantum,
            destination_groups: config.paths.groups.clone(),
            discover: config.paths.discover,
            mtu: device.mtu,
            crc: config.crc,
            security: config.keys.security.clone(),
            receive_buffer: config.receive_buffer,
            faults: config.faults,
            seed: random(),
            spin,
            ping_interval: config.timeouts.ping_interval,
            peer_timeout: config.timeouts.peer_timeout,
            linger: config.timeouts.linger,
            // The environment configures the metrics.
            metrics: MetricsEndpoint::default(),
        })?;
        let listening: Arc<Mutex<HashSet<u64>>> = Arc::default();
        let open = listening.clone();
        let listener = engine.listen_for(BACKLOG, move |private_data| {
            any_wanted_listener(private_data).is_some_and(|number| lock(&open).contains(&number))
        })?;
        let pd = engine.alloc_pd();
        let progress_thread = match config.threads {
            0 => Some(ProgressThread::start(engine.create_cq(1)?)?),
            _ => None,
        };
        Ok(DeviceContext {
            progress_thread,
            device: device.index,
            regions: RegionCache::new(pd.clone()),
            pd,
            config: config.clone(),
            listener,
            listening,
            waiting: Mutex::default(),
            origin: Origin::here(),
            engine: ClosingEngine::new(engine),
        })
    }

    /// Returns whether this process opened the device. A forked child may neither use nor drop it.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// Records that a thread is about to poll.
    pub(crate) fn polled(&self) {
        if let Some(thread) = &self.progress_thread {
            thread.polled();
        }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.engine.local_addr()
    }

    pub(crate) fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.config.timeouts.connect_timeout
    }

    pub(crate) fn linger(&self) -> Duration {
        self.config.timeouts.linger
    }

    /// Creates a queue pair in INIT and the completion queue of both its queues.
    ///
    /// # Errors
    /// If the system has no memory or descriptor left.
    pub(crate) fn queue_pair(
        &self,
        max_send_wr: u32,
        max_recv_wr: u32,
    ) -> Result<(QueuePair, CompletionQueue), Error> {
        let cq = self.engine.create_cq((max_send_wr + max_recv_wr) as usize)?;
        let mut options = QpOptions::new(&cq, &cq).queues(max_send_wr, max_recv_wr);
        options.config.cc = self.config.cc.clone();
        options.config.recovery = self.config.loss_recovery;
        let qp = self.pd.create_qp(options)?;
        qp.modify(QpState::Init)?;
        Ok((qp, cq))
    }

    /// Returns a number for a listening communicator, unique on all hosts.
    pub(crate) fn start_listening(&self) -> u64 {
        let number = random();
        self.waiting().insert(number, VecDeque::new());
        lock(&self.listening).insert(number);
        number
    }

    /// Rejects the waiting and future requests of a listening communicator.
    pub(crate) fn stop_listening(&self, number: u64) {
        lock(&self.listening).remove(&number);
        let turned_down = self.waiting().remove(&number);
        drop(turned_down);
        self.sort_requests();
    }

    /// Returns the next connection request of a listening communicator. Does not wait.
    pub(crate) fn next_request(&self, number: u64) -> Option<ConnectionRequest> {
        self.sort_requests();
        self.waiting().get_mut(&number)?.pop_front()
    }

    /// Assigns new requests to their listening communicators and drops those of closed ones.
    fn sort_requests(&self) {
        let mut waiting = self.waiting();
        while let Some(request) = self.listener.accept(Duration::ZERO) {
            let wanted = any_wanted_listener(request.private_data());
            match wanted.and_then(|number| waiting.get_mut(&number)) {
                Some(queue) => queue.push_back(request),
                None => request.reject(),
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an unpredictable number. The standard library seeds its hashers from the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
