//! Snapshots of an engine for monitoring.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{QpCounters, QpError, QpState, SubflowMetrics};
use braid_wire::{QpId, Time};

use crate::clock::Clock;
use crate::counters::{EngineCounters, WorkerCounters};
use crate::degradation::Degradation;
use crate::paths_to::{PathRoute, PathsTo};
use crate::worker::{WorkerCell, WorkerControl};

/// Queue pairs read while a worker waits: about 20 us.
const SLOTS_AT_ONCE: usize = 64;

/// A snapshot of an engine, see [`crate::Engine::metrics`]. Readers compute rates from two
/// snapshots: the difference of a counter divided by that of `uptime`.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// # let [a, b] = [(); 2].map(|()| pd.create_qp(QpOptions::new(&cq, &cq)).unwrap());
/// # let listener = engine.listen(1)?;
/// # std::thread::scope(|scope| {
/// #     scope.spawn(|| listener.accept(PATIENCE).unwrap().accept(&b, b"").unwrap());
/// #     a.connect(engine.local_addr(), b"", PATIENCE)
/// # })?;
///
/// let metrics = engine.metrics();
/// for qp in &metrics.queue_pairs {
///     let in_flight: u64 = qp.subflows.iter().map(|subflow| subflow.in_flight).sum();
///     println!("{} {:?} to {:?}: {in_flight} bytes in flight", qp.number, qp.state, qp.peer);
/// }
/// assert_eq!(metrics.queue_pairs.len(), 2);
/// assert!(metrics.counters.datagrams_sent > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineMetrics {
    /// The receiving address of the first worker.
    pub local_addr: SocketAddr,
    /// Time since the engine was created.
    pub uptime: Duration,
    /// The counters of the engine.
    pub counters: EngineCounters,
    /// The queue pairs, by worker, then by number.
    pub queue_pairs: Vec<QpMetrics>,
    /// The paths to each destination that has queue pairs, by worker and rail.
    pub paths: Vec<PathsTo>,
    /// The connections of the paths, where paths are TCP connections.
    pub routes: Vec<PathRoute>,
}

/// A snapshot of a queue pair.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QpMetrics {
    /// The queue pair number, 24 bits.
    pub number: QpId,
    /// The state.
    pub state: QpState,
    /// The reason for ERR.
    pub error: Option<QpError>,
    /// The receiving address of the peer. `None`: not connected.
    pub peer: Option<SocketAddr>,
    /// The protocol that carries the packets, see [`crate::QueuePair::protocol`]. `None`: not
    /// connected.
    pub protocol: Option<&'static str>,
    /// Payload bytes of a full packet. `None`: not connected.
    pub packet_payload: Option<u16>,
    /// Posted sends that have not ended.
    pub outstanding_sends: u32,
    /// Posted receives that have not ended.
    pub outstanding_recvs: u32,
    /// The counters since the queue pair was created or reset.
    pub counters: QpCounters,
    /// Round-trip time, window and bytes in flight, by stream and rail.
    pub subflows: Vec<SubflowMetrics>,
    /// The degradations of the connection, the same for all connections to its peer.
    pub degradations: Vec<Degradation>,
}

/// The sources of a snapshot. They keep no engine alive.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) local_addr: SocketAddr,
    pub(crate) clock: Clock,
    pub(crate) workers: Vec<Arc<WorkerCell>>,
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
}

impl Observed {
    /// Takes a snapshot. `None`: a worker has panicked.
    pub(crate) fn read(&self) -> Option<EngineMetrics> {
        let (mut queue_pairs, mut paths, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for worker in &self.workers {
            worker.try_control()?.survey_all();
            paths.extend(worker.try_control()?.path_sets());
            routes.extend(worker.try_control()?.routes());
            read_queue_pairs(|| worker.try_control(), &mut queue_pairs)?;
            worker.try_control()?.publish_losses();
        }
        let mut counters = EngineCounters::default();
        self.counters.iter().for_each(|worker| worker.add_to(&mut counters));
        let uptime = self.clock.now() - Time::ZERO;
        let local_addr = self.local_addr;
        Some(EngineMetrics { local_addr, uptime, counters, queue_pairs, paths, routes })
    }
}

/// Reads a part at a time, so that no worker waits long.
fn read_queue_pairs<'a>(
    control: impl Fn() -> Option<WorkerControl<'a>>,
    all: &mut Vec<QpMetrics>,
) -> Option<()> {
    for from in (0..).step_by(SLOTS_AT_ONCE) {
        all.reserve(SLOTS_AT_ONCE);
        let worker = control()?;
        if from >= worker.qp_slots() {
            break;
        }
        all.extend(worker.qp_metrics(from..from + SLOTS_AT_ONCE));
    }
    Some(())
}
