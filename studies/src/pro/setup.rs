//! The common set-up of the paper's simulations (PRO, section VI-A).

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedWindow};
use braid_lb::LbPolicy;
use braid_transport::LossRecovery;

use braid_sim::fabric::{Buffer, Marking, NetworkConfig, Pause, When};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths, Recovery, Sharing};
use braid_sim::simulation::{Change, Plan};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Tier, Topology};
use braid_sim::workload::{
    Forwarding, Groups, Pipeline, Workload, WorkloadError, bounds, ring, tree,
};

use crate::shipped::Product;

/// Rate of every link.
const RATE: Rate = Rate::from_gbps(200);
/// Delay of every link.
const DELAY: Ps = Ps::from_micros(1);
/// Frame sizes: payload as in the simulator that the authors started from, headers as in the other
/// studies.
pub(super) const FRAMES: Frames = Frames { payload: 1000, header: 62, ack: 64, gap: 0 };
/// Buffer of a switch.
const BUFFER: Buffer = Buffer::Shared { bytes: 100_000_000, alpha: 1.0 };
/// Pause frames by the dynamic threshold alone.
const PAUSE: Pause = Pause { stop: u64::MAX, go: u64::MAX };
/// Kmin, Kmax and Pmax.
const MARKING: Marking =
    Marking { low: 100_000, high: 400_000, most: 0.2, when: When::Leaving, of: None };
/// Interval of adaptive routing's readings.
const LOOK: Ps = Ps::from_micros(1);
/// The retransmission time-out.
const RTO: Duration = Duration::from_micros(80);
/// Bytes of the default message.
pub(super) const MESSAGE: u64 = 16_000_000;
/// Time limit of a run: a hundred times that of the default message.
const LIMIT: Ps = Ps::from_micros(100_000);

/// The pipeline on the edges of a tree. A child's buffer covers the time from its parent to its
/// children and back, 9 us, at half a link's rate. It is small enough that a parent who fills it at
/// once causes no marks.
pub(super) const PIPELINE: Pipeline =
    Pipeline { chunk_bytes: 16_000, ahead: NonZeroU32::new(8).unwrap() };

/// The compared schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProScheme {
    Ecmp,
    ConWeave,
    Adaptive,
    Drill,
    Pro,
    /// Rotation over the uplinks for all packets, independent of queue pair and destination (Fig.
    /// 3, left; Fig. 11a).
    NicRoundRobin,
    /// A rotation per queue pair, all from the same path (Fig. 3, middle; Fig. 11b).
    QpRoundRobin,
}

impl ProScheme {
    /// The schemes of figures 8 to 10 and 12, and of table II.
    pub(super) const COMPARED: [ProScheme; 5] = [
        ProScheme::Ecmp,
        ProScheme::ConWeave,
        ProScheme::Adaptive,
        ProScheme::Drill,
        ProScheme::Pro,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ProScheme::Ecmp => "ECMP",
            ProScheme::ConWeave => "ConWeave",
            ProScheme::Adaptive => "AR",
            ProScheme::Drill => "DRILL",
            ProScheme::Pro => "PRO",
            ProScheme::NicRoundRobin => "RR without destinations",
            ProScheme::QpRoundRobin => "RR without orchestration",
        }
    }

    fn policy(self) -> Policy {
        match self {
            ProScheme::Ecmp => Policy::Ecmp,
            ProScheme::ConWeave => Policy::ConWeave,
            ProScheme::Adaptive => Policy::LeastLoaded { every: LOOK },
            ProScheme::Drill => Policy::Drill { samples: 2 },
            ProScheme::Pro | ProScheme::NicRoundRobin | ProScheme::QpRoundRobin => {
                Policy::SourceOrLeastLoaded { every: LOOK }
            }
        }
    }

    fn paths(self) -> (LbPolicy, Paths, Sharing) {
        match self {
            ProScheme::Pro => (LbPolicy::PRO, Paths::Source, Sharing::Edge),
            ProScheme::NicRoundRobin => (LbPolicy::ROUND_ROBIN, Paths::Source, Sharing::Interface),
            ProScheme::QpRoundRobin => (LbPolicy::ROUND_ROBIN, Paths::Source, Sharing::Nothing),
            ProScheme::Ecmp | ProScheme::ConWeave | ProScheme::Adaptive | ProScheme::Drill => {
                (LbPolicy::ECMP, Paths::Hashed(4096), Sharing::Edge)
            }
        }
    }
}

/// The traffic pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    /// Every host sends to a random next one, in one cycle.
    Ring,
    /// Every host sends to its children in two random binary trees.
    Tree(Forwarding),
}

impl Pattern {
    /// The tree whose roots are no faster than their children can forward.
    pub(super) const TREE: Pattern = Pattern::Tree(Forwarding::PacedRoots(PIPELINE));

    pub(super) fn name(self) -> &'static str {
        match self {
            Pattern::Ring => "ring",
            Pattern::Tree(_) => "double binary tree",
        }
    }

    pub(super) fn workload(self, topology: &Topology, bytes: u64, seed: u64) -> Workload {
        self.draw(topology.hosts(), bytes, seed).expect("the paper's patterns fit its fabrics")
    }

    fn draw(self, hosts: u32, bytes: u64, seed: u64) -> Result<Workload, WorkloadError> {
        let groups = Groups::all(hosts)?.shuffled(seed);
        match self {
            Pattern::Ring => ring(&groups, bytes),
            Pattern::Tree(forwarding) => tree(&groups, bytes, forwarding),
        }
    }
}

/// Returns a two-tier fabric with as much bandwidth up as down.
pub(super) fn fabric(tors: u32, hosts_per_tor: u32, aggs: u32) -> Topology {
    let plan = LeafSpine {
        leaves: tors,
        hosts_per_leaf: hosts_per_tor,
        spines: aggs,
        links_per_spine: 1,
        host_rate: RATE,
        fabric_rate: RATE,
        delay: DELAY,
    };
    plan.build().expect("the paper's fabrics can be built")
}

/// Returns the paper's fabric: 16 ToR switches, 8 aggregation switches, 128 servers.
pub(super) fn paper_fabric() -> Topology {
    fabric(16, 8, 8)
}

/// Returns the hosts below each ToR switch.
fn hosts_by_tor(topology: &Topology) -> Vec<Vec<u32>> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    topology.nics.iter().for_each(|nic| groups.entry(nic.edge).or_default().push(nic.host));
    groups.into_values().collect()
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct ProSetup {
    pub(super) scheme: ProScheme,
    pub(super) recovery: LossRecovery,
    /// Packets sent later that must have arrived, for `sack`.
    pub(super) reorder_threshold: u32,
    pub(super) cc: CcConfig,
    /// Replaces the policy of the scheme.
    pub(super) policy: Option<Policy>,
    /// Whether switches hash control packets, as conweave-ns3 does, whatever they do with data.
    pub(super) control_hashed: bool,
    pub(super) changes: Vec<(Ps, Change)>,
    pub(super) product: Product,
    /// Replaces the path quantum.
    pub(super) quantum: Option<u32>,
    /// Whether path sets belong to ToR switches or to hosts, instead of what the hosts have.
    pub(super) per_tor: Option<bool>,
    pub(super) seed: u64,
}

impl ProSetup {
    pub(super) fn new(scheme: ProScheme, seed: u64) -> ProSetup {
        ProSetup {
            scheme,
            recovery: LossRecovery::OooWindow,
            reorder_threshold: 0,
            cc: CcConfig::new(dcqcn()),
            policy: None,
            control_hashed: false,
            changes: Vec::new(),
            product: Product::Paper,
            quantum: None,
            per_tor: None,
            seed,
        }
    }

    pub(super) fn plan(&self, topology: &Topology, workload: Workload) -> Plan {
        let (lb, paths, sharing) = self.scheme.paths();
        let host = HostConfig {
            lb,
            paths,
            sharing,
            health: false,
            recovery: Recovery::Protocol(self.recovery),
            reorder_threshold: self.reorder_threshold,
            cc: self.cc.clone(),
            min_rto: RTO,
            ..HostConfig::default()
        };
        let mut host = self.product.hosts(host);
        host.quantum = self.quantum.or(host.quantum);
        match (self.per_tor, self.product) {
            (None, _) => {}
            (Some(true), Product::Paper) => host.sharing = Sharing::Edge,
            (Some(false), _) => host.sharing = Sharing::Host,
            (Some(true), _) => host.destination_groups = hosts_by_tor(topology),
        }
        let policy = self.policy.clone().unwrap_or_else(|| self.scheme.policy());
        let network = NetworkConfig {
            marking: Some(MARKING),
            pause: Some(PAUSE),
            control_hashed: self.control_hashed,
            ..NetworkConfig::plain(FRAMES, BUFFER, policy)
        };
        let (topology, changes, seed) = (topology.clone(), self.changes.clone(), self.seed);
        Plan { topology, network, host, workload, changes, seed, limit: LIMIT }
    }
}

/// Returns DCQCN without a window, and without cuts by losses, as in the simulator that the authors
/// started from.
pub(super) fn dcqcn() -> DcqcnConfig {
    DcqcnConfig { window: 1 << 30, cut_on_loss: false, ..DcqcnConfig::new(RATE.bps()) }
}

/// Returns a controller that never slows a sender down.
pub(super) fn uncontrolled() -> CcConfig {
    CcConfig::new(FixedWindow { window: 1 << 30 })
}

/// Returns the time of a workload without contention in the fabric. It is that of a permutation in
/// which every host is as busy as the busiest interface, including acknowledgements (OFAN, appendix
/// B).
pub(super) fn ideal(topology: &Topology, workload: &Workload) -> Ps {
    let mut load = vec![[0, 0]; topology.nics.len()];
    for message in &workload.messages {
        load[message.src as usize][0] += message.bytes;
        load[message.dst as usize][1] += message.bytes;
    }
    let busiest = load.into_iter().flatten().max().unwrap_or(0);
    let leaves_its_tor = |message: &&braid_sim::workload::Message| {
        topology.meeting_tier(message.src, message.dst) > Tier::Edge
    };
    let hops = if workload.messages.iter().any(|message| leaves_its_tor(&message)) { 4 } else { 2 };
    bounds::permutation(&FRAMES, &bounds::Path { rate: RATE, delay: DELAY, hops }, busiest)
}
