//! A snapshot of an engine, for people and programs that look at it from outside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{QpCounters, QpError, QpState, SubflowMetrics};
use braid_wire::{QpId, Time};

use crate::clock::Clock;
use crate::counters::{EngineCounters, WorkerCounters};
use crate::degradation::Degradation;
use crate::paths_to::PathsTo;
use crate::worker::{Control, WorkerCell};

/// Queue pairs that are read while a worker waits: some 20 us.
const SLOTS_AT_ONCE: usize = 64;

/// An engine at one moment; see [`crate::Engine::metrics`]. Rates are for readers to compute: of
/// two snapshots, the difference of a counter by that of `uptime`.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
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
    /// Where its first worker receives.
    pub local_addr: SocketAddr,
    /// Since it was made.
    pub uptime: Duration,
    /// What it has seen.
    pub counters: EngineCounters,
    /// Its queue pairs, by worker, then by number.
    pub queue_pairs: Vec<QpMetrics>,
    /// The paths to each destination that has queue pairs, by worker and rail.
    pub paths: Vec<PathsTo>,
}

/// A queue pair at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QpMetrics {
    /// Its number, 24 bits.
    pub number: QpId,
    /// Its state.
    pub state: QpState,
    /// Why it is in ERR.
    pub error: Option<QpError>,
    /// Where its peer receives, while it is connected.
    pub peer: Option<SocketAddr>,
    /// Payload bytes of a full packet, while it is connected.
    pub packet_payload: Option<u16>,
    /// Sends that are posted and have not ended.
    pub outstanding_sends: u32,
    /// Receives that are posted and have not ended.
    pub outstanding_recvs: u32,
    /// What it has seen since it was created or reset.
    pub counters: QpCounters,
    /// Round-trip time, window and bytes in flight, by stream and rail.
    pub subflows: Vec<SubflowMetrics>,
    /// The degradations of its connection, the same for all that go to its peer.
    pub degradations: Vec<Degradation>,
}

/// What a snapshot is made of; it keeps no engine alive.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) local_addr: SocketAddr,
    pub(crate) clock: Clock,
    pub(crate) workers: Vec<Arc<WorkerCell>>,
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
}

impl Observed {
    /// `None`: a worker has panicked.
    pub(crate) fn read(&self) -> Option<EngineMetrics> {
        let (mut queue_pairs, mut paths) = (Vec::new(), Vec::new());
        for worker in &self.workers {
            worker.try_control()?.survey_all();
            paths.extend(worker.try_control()?.path_sets());
            read_queue_pairs(|| worker.try_control(), &mut queue_pairs)?;
            worker.try_control()?.publish_losses();
        }
        let mut counters = EngineCounters::default();
        self.counters.iter().for_each(|worker| worker.add_to(&mut counters));
        let uptime = self.clock.now() - Time::ZERO;
        Some(EngineMetrics { local_addr: self.local_addr, uptime, counters, queue_pairs, paths })
    }
}

/// A part at a time, so that nothing waits long.
fn read_queue_pairs<'a>(
    control: impl Fn() -> Option<Control<'a>>,
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
