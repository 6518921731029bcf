//! The common set-up of the paper's simulations (MCC, section 2.2 and figure 1).

use std::time::Duration;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;

use crate::shipped::Product;
use braid_sim::fabric::{Buffer, Marking, NetworkConfig, Pause, When};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths, Recovery};
use braid_sim::simulation::Plan;
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Node, PortId, Topology};
use braid_sim::workload::{Groups, Workload, ring};

/// Rate of every link but l2. For the servers' links it is this project's choice.
pub(super) const RATE: Rate = Rate::from_gbps(100);
/// Rate of l2, one of whose two cables has failed.
pub(super) const SLOW: Rate = Rate::from_gbps(50);
/// Number of servers below each leaf.
const SERVERS: u32 = 4;
/// This project's choice, as are all values below.
const DELAY: Ps = Ps::from_micros(1);
const HEADER: u32 = 62;
pub(super) const ACK: u32 = 64;
pub(super) const PAYLOAD: u16 = 4096;
/// Buffer of a switch, as in HPCC's simulator.
const BUFFER: u64 = 32_000_000;
/// Thresholds of pause frames per incoming link, far above all marking thresholds.
const PAUSE: Pause = Pause { stop: 1_000_000, go: 900_000 };
/// Bins of quantised adaptive routing, as shares of a port's part of the buffer, with 32 ports; and
/// the age of the readings.
const BINS_PERCENT: [u64; 3] = [5, 10, 20];
const ADAPTIVE_AGE: Ps = Ps(100_000);
const LEAF_0: Node = Node::Switch(0);

/// A congestion control with its name in the figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MccScheme {
    pub(super) name: &'static str,
    /// The text form of the controller.
    pub(super) cc: &'static str,
}

const fn scheme(name: &'static str, cc: &'static str) -> MccScheme {
    MccScheme { name, cc }
}

impl MccScheme {
    /// No control but pause frames: a window that is never reached.
    pub(super) const PAUSE: MccScheme = scheme("PFC", "fixed:1G");
    /// The timers that the Themis paper by the same group recommends.
    pub(super) const DCQCN: MccScheme = scheme("DCQCN", "dcqcn:line=100G,window=1G,inc=900us");
    pub(super) const DCQCN_300: MccScheme = scheme("DCQCN 300/4", "dcqcn:line=100G,window=1G");
    /// The timers of DCQCN's paper.
    pub(super) const DCQCN_55: MccScheme =
        scheme("DCQCN 55/50", "dcqcn:line=100G,window=1G,alpha=50us,dec=50us,inc=55us");
    pub(super) const TIMELY: MccScheme = scheme("TIMELY", "timely:line=100G,window=1G");
    /// Windows start at the product of the link rate and the target of 20 us plus four hops, 32 us
    /// (as OFAN, appendix H).
    pub(super) const SWIFT: MccScheme = scheme("Swift", "swift:start=400000");
    pub(super) const MSWIFT: MccScheme = scheme("MSwift", "mswift:start=400000");
    /// The ratio is known from the topology: 400 Gb/s into 150, rounded up to 3.
    pub(super) const MCC: MccScheme = scheme("MCC", "mcc:line=100G");
    pub(super) const MCC_EIGHTH: MccScheme = scheme("MCC, 1/8 BDP", "mcc:line=100G,ratio=8");
    pub(super) const MCC_TABLE: MccScheme =
        scheme("MCC, 64 KiB, table 1", "mcc:line=100G,target-msg=92us,target-max=64us");
    pub(super) const MCC_LONG: MccScheme = scheme(
        "MCC, 750 KB, table 1",
        "mcc:line=100G,message=750000,target-msg=92us,target-max=64us",
    );

    /// Messages of one packet: the signal of packet-level controls under MCC's rules.
    pub(super) const MCC_PACKET: MccScheme = scheme("MCC, one packet", "mcc:line=100G,message=4K");

    /// The schemes of the figures. Swift and MSwift are not in the paper.
    pub(super) const COMPARED: [MccScheme; 6] = [
        MccScheme::PAUSE,
        MccScheme::DCQCN,
        MccScheme::TIMELY,
        MccScheme::SWIFT,
        MccScheme::MSWIFT,
        MccScheme::MCC,
    ];

    fn config(self) -> CcConfig {
        self.cc.parse().expect("the study's controllers have known parameters")
    }
}

/// The fabric of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fabric {
    /// Leaf 0 to spine 1 at 50 Gb/s, and back at 100, as in the paper's text.
    SlowUplink,
    /// Both directions of this cable at 50 Gb/s.
    SlowBothWays,
    /// One uplink of 150 Gb/s at leaf 0: the same capacity without a second path.
    OnePath,
}

/// The switch policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Routing {
    /// The shorter queue for every packet.
    Shortest,
    /// A random port in the lowest bin.
    Quantised,
    /// A hash of the flow.
    Ecmp,
    /// A hash, and four source ports for each flow, as with more queue pairs.
    Subflows,
    /// A hash, and another source port when a flow meets marks.
    Flowlets,
}

/// Kmin and Kmax at 100 Gb/s, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Thresholds {
    pub(super) low: u64,
    pub(super) high: u64,
    /// Whether they are scaled to slower links.
    pub(super) by_speed: bool,
}

impl Thresholds {
    /// The thresholds of HPCC, which the paper uses for DCQCN.
    pub(super) const HPCC: Thresholds =
        Thresholds { low: 400_000, high: 1_600_000, by_speed: true };
}

/// The parameters of a run without its seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MccSetup {
    pub(super) scheme: MccScheme,
    pub(super) fabric: Fabric,
    pub(super) routing: Routing,
    pub(super) marking: Thresholds,
    /// Payload bytes of a full packet.
    pub(super) payload: u16,
    /// Number of servers of each leaf that send.
    pub(super) pairs: u32,
    /// Bytes that each server sends to its peer.
    pub(super) bytes: u64,
    /// Number of packets per acknowledgement.
    pub(super) ack_every: u32,
    pub(super) product: Product,
}

impl MccSetup {
    /// Returns figure 6's network with this control and size.
    pub(super) fn new(scheme: MccScheme, bytes: u64) -> MccSetup {
        MccSetup {
            scheme,
            fabric: Fabric::SlowUplink,
            routing: Routing::Shortest,
            marking: Thresholds::HPCC,
            payload: PAYLOAD,
            pairs: SERVERS,
            bytes,
            ack_every: 1,
            product: Product::Paper,
        }
    }

    pub(super) fn frames(&self) -> Frames {
        Frames { payload: self.payload, header: HEADER, ack: ACK, gap: 0 }
    }

    pub(super) fn plan(&self, seed: u64) -> Plan {
        Plan {
            topology: self.topology(),
            network: self.network(),
            host: self.product.hosts(HostConfig {
                lb: self.lb(),
                paths: Paths::Hashed(256),
                health: false,
                recovery: Recovery::Ideal,
                cc: self.scheme.config(),
                ack_every: self.ack_every,
                min_rto: Duration::from_millis(10),
                max_rto: Duration::from_millis(100),
                ..HostConfig::default()
            }),
            workload: self.workload(),
            changes: Vec::new(),
            seed,
            limit: Ps::from_micros(10_000_000),
        }
    }

    fn lb(&self) -> LbPolicy {
        match self.routing {
            Routing::Shortest | Routing::Quantised | Routing::Ecmp => LbPolicy::ECMP,
            Routing::Subflows => LbPolicy::SUBFLOW,
            Routing::Flowlets => LbPolicy::PLB,
        }
    }

    fn topology(&self) -> Topology {
        let (spines, fabric_rate) = match self.fabric {
            Fabric::SlowUplink | Fabric::SlowBothWays => (2, RATE),
            Fabric::OnePath => (1, Rate::from_gbps(200)),
        };
        let plan = LeafSpine {
            leaves: 2,
            hosts_per_leaf: SERVERS,
            spines,
            links_per_spine: 1,
            host_rate: RATE,
            fabric_rate,
            delay: DELAY,
        };
        let mut topology = plan.build().expect("the paper's fabric can be built");
        let uplinks = uplinks(&topology);
        match (self.fabric, uplinks[..].last()) {
            (Fabric::OnePath, Some(only)) => {
                topology.set_port_rate(*only, Rate::from_gbps(150));
            }
            (_, Some(l2)) => {
                topology.set_port_rate(*l2, SLOW);
                if self.fabric == Fabric::SlowBothWays {
                    topology.set_port_rate(l2.reverse(), SLOW);
                }
            }
            (_, None) => unreachable!("leaf 0 has uplinks"),
        }
        topology
    }

    fn network(&self) -> NetworkConfig {
        let Thresholds { low, high, by_speed } = self.marking;
        let (most, of) = (0.2, by_speed.then_some(RATE));
        let policy = match self.routing {
            Routing::Shortest => Policy::Shortest,
            Routing::Quantised => {
                let bins = BINS_PERCENT.map(|percent| BUFFER / 32 / 100 * percent).to_vec();
                Policy::Adaptive { bins, age: ADAPTIVE_AGE }
            }
            Routing::Ecmp | Routing::Subflows | Routing::Flowlets => Policy::Ecmp,
        };
        let buffer = Buffer::Shared { bytes: BUFFER, alpha: 1.0 };
        NetworkConfig {
            marking: Some(Marking { low, high, most, when: When::Leaving, of }),
            pause: Some(PAUSE),
            ..NetworkConfig::plain(self.frames(), buffer, policy)
        }
    }

    /// Server i of leaf 0 and server i of leaf 1 exchange the halves of an AllReduce, in both
    /// directions at once.
    fn workload(&self) -> Workload {
        let pairs = (0..self.pairs).map(|server| vec![server, SERVERS + server]).collect();
        let groups = Groups::new(2 * SERVERS, pairs).expect("the paper's groups are possible");
        ring(&groups, self.bytes).expect("the paper's sizes are possible")
    }
}

/// Returns the uplinks of leaf 0: l1, and l2 if there is one.
pub(super) fn uplinks(topology: &Topology) -> Vec<PortId> {
    topology.ports_of(LEAF_0).filter(|port| port.is_up()).collect()
}

/// Returns whether a server is below leaf 0.
pub(super) fn is_sender(nic: u32) -> bool {
    nic < SERVERS
}
