//! The paper's set-up (section 5), and one run of it.

use braid_cc::{CcConfig, FixedWindow};
use braid_transport::LossRecovery;

use super::failures::{self, Failures};
use super::scheme::OfanScheme;
use crate::shipped::Product;
use braid_sim::fabric::{Buffer, Marking, NetworkConfig, When};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Recovery, Sharing};
use braid_sim::probe::{self, Probe};
use braid_sim::simulation::{Change, Plan, Simulation};
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{FatTree, Layer, PortId, Tier, Topology};
use braid_sim::workload::bounds;
use braid_sim::workload::{
    Fsdp, Groups, Message, Pairs, Start, StartOrder, Workload, all_to_all, permutation,
};

const RATE: Rate = Rate::from_gbps(800);
const DELAY: Ps = Ps::from_nanos(500);
const HOPS: u32 = 6;
/// Bytes of a data frame's headers, of an acknowledgement, and of the gap between frames.
const HEADER: u32 = 62;
const ACK: u32 = 64;
const GAP: u32 = 20;

/// Default buffer per port: 192 packets.
pub(super) const BUFFER: u64 = 800_000;

/// The traffic of a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Traffic {
    Permutation(Pairs),
    AllToAll,
    /// A message each way between the first and the last node.
    BothWays,
    Training(Fsdp),
}

/// The parameters of a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OfanSetup {
    pub(super) scheme: OfanScheme,
    /// Ports of a switch of the three-tier fat tree.
    pub(super) k: u32,
    pub(super) traffic: Traffic,
    /// Bytes of a message.
    pub(super) bytes: u64,
    /// Payload bytes of a packet.
    pub(super) payload: u16,
    /// Buffer bytes per port. Marking thresholds and bins are fractions of it.
    pub(super) buffer: u64,
    /// Whether queues may grow without a limit.
    pub(super) unlimited: bool,
    pub(super) failures: Failures,
    /// Whether data is paced at the rate that remains if every data packet is acknowledged, even if
    /// a host has less to acknowledge. Otherwise data uses the rest of the link.
    pub(super) paced: bool,
    /// Packets sent later after which a packet counts as lost. `None`: ideal erasure coding.
    pub(super) sack: Option<u32>,
    /// The congestion control in text form. `None`: a fixed rate.
    pub(super) cc: Option<&'static str>,
    pub(super) product: Product,
    /// Replaces the path quantum.
    pub(super) quantum: Option<u32>,
    pub(super) seed: u64,
}

/// The results of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OfanOutcome {
    /// Time until the last acknowledgement.
    pub(super) cct: Ps,
    /// Lower bound at the rate that the failures leave.
    pub(super) bound: Ps,
    /// Lower bound with all links.
    pub(super) whole_bound: Ps,
    /// Longest queue of a switch, in full data packets.
    pub(super) max_queue: f64,
    /// Bytes of the fullest link over those with perfect balance, minus 1, by [`LAYERS`].
    pub(super) overload: [f64; 4],
    /// Number of packets acknowledged as marked.
    pub(super) marks: f64,
    /// Share of retransmissions among the packets sent.
    pub(super) resent: f64,
    /// Pairs of flows that share a link from an aggregation to an edge switch for good.
    pub(super) collisions: f64,
    /// The largest out-of-order degree, in packets.
    pub(super) disorder: f64,
    /// Share of the packets of a flow that were lost, for the flow that lost most.
    pub(super) worst_loss: f64,
}

/// The layers of links between switches, from source to destination.
pub(super) const LAYERS: [(&str, Layer); 4] = [
    ("edge to agg", Layer { from: Tier::Edge, to: Tier::Agg }),
    ("agg to core", Layer { from: Tier::Agg, to: Tier::Core }),
    ("core to agg", Layer { from: Tier::Core, to: Tier::Agg }),
    ("agg to edge", Layer { from: Tier::Agg, to: Tier::Edge }),
];

impl OfanSetup {
    /// Returns the default set-up: 128 nodes, a permutation of 1 MiB, no failures.
    pub(super) fn new(scheme: OfanScheme, seed: u64) -> OfanSetup {
        OfanSetup {
            scheme,
            k: 8,
            traffic: Traffic::Permutation(Pairs::Any),
            bytes: 1 << 20,
            payload: 4096,
            buffer: BUFFER,
            unlimited: false,
            failures: Failures::NONE,
            paced: false,
            sack: None,
            cc: None,
            product: Product::Paper,
            quantum: None,
            seed,
        }
    }

    /// Changes the traffic to an all-to-all of `bytes` per pair.
    pub(super) fn all_to_all(self, bytes: u64) -> OfanSetup {
        OfanSetup { traffic: Traffic::AllToAll, bytes, ..self }
    }

    /// Returns the shortest round trip of a data packet and its acknowledgement. Default: 6.25 us.
    pub(super) fn round_trip(&self) -> Ps {
        bounds::lone_flow(&self.frames(), &path(), 1)
            + RATE.time_for(u32::from(self.payload) - 1) * HOPS.into()
    }

    /// Returns the paper's lower bound with all links.
    pub(super) fn least_time(&self) -> Ps {
        self.bound(&self.topology(), 1.0)
    }

    /// Runs the set-up.
    ///
    /// # Panics
    /// Panics if the simulator fails, which would be a defect.
    pub(super) fn run(&self) -> OfanOutcome {
        self.observe(Vec::new(), &mut [])
    }

    /// Runs the set-up with more changes of the fabric, and with probes.
    ///
    /// # Panics
    /// Panics if the simulator fails, which would be a defect.
    pub(super) fn observe(&self, more: Vec<(Ps, Change)>, probes: &mut [Probe<'_>]) -> OfanOutcome {
        let topology = self.topology();
        let workload = self.workload(&topology);
        let damage = failures::draw(&topology, &workload, &self.failures, self.seed);
        let host = self.product.hosts(self.host(damage.share));
        let host = HostConfig { quantum: self.quantum.or(host.quantum), ..host };
        let trip = self.round_trip();
        let mut changes = damage.changes(&self.failures, trip);
        changes.extend(more);
        let bound = self.bound(&topology, damage.share);
        let whole_bound = self.bound(&topology, 1.0);
        let network = self.network();
        let limit = Ps::from_micros(1_000_000);
        let seed = self.seed;
        let mut run =
            Simulation::new(Plan { topology, network, host, workload, changes, seed, limit });
        let ended = if probes.is_empty() { run.run() } else { probe::run(&mut run, probes) };
        if let Err(why) = ended {
            panic!("{} with seed {seed} does not come to its end: {why}", self.scheme.name());
        }
        let counters = run.hosts.counters();
        let in_order = counters.segments_received.saturating_sub(counters.out_of_order);
        OfanOutcome {
            cct: run.completion_time(),
            bound,
            whole_bound,
            max_queue: self.max_queue(&run),
            overload: LAYERS.map(|(_, layer)| overload(&run, layer)),
            marks: counters.ecn_marks as f64,
            resent: counters.retransmitted as f64 / counters.segments_sent as f64,
            collisions: self.collisions(&run),
            disorder: run.hosts.ooo_degrees().quantile(1.0, in_order) as f64,
            worst_loss: worst_loss(&run),
        }
    }

    /// Returns the pairs of flows on each link from an aggregation to an edge switch. The number of
    /// flows on a link follows from its bytes.
    fn collisions(&self, run: &Simulation) -> f64 {
        let frames = self.frames();
        let flow = frames.packets(self.bytes) * u64::from(frames.full());
        let (_, down) = LAYERS[3];
        let ports = (0..run.fabric.ports.len() as u32).map(PortId);
        let links = ports.filter(|port| run.fabric.topology.layer(*port) == down);
        let flows = links
            .map(|port| (run.fabric.ports[port.index()].sent.bytes as f64 / flow as f64).round());
        flows.map(|flows| flows * (flows - 1.0) / 2.0).sum()
    }

    pub(super) fn topology(&self) -> Topology {
        let plan = FatTree::k_ary(self.k, RATE, DELAY).and_then(|tree| tree.build());
        plan.expect("an even arity makes a fat tree")
    }

    pub(super) fn workload(&self, topology: &Topology) -> Workload {
        let nodes = topology.hosts();
        match &self.traffic {
            Traffic::Permutation(pairs) => permutation(topology, self.bytes, *pairs, self.seed),
            Traffic::AllToAll => {
                Groups::all(nodes).and_then(|all| all_to_all(&all, self.bytes, StartOrder::Rotated))
            }
            Traffic::BothWays => {
                let start = Start::At(Ps::ZERO);
                let one = Message {
                    src: 0,
                    dst: nodes - 1,
                    bytes: self.bytes,
                    start,
                    queue: 0,
                    group: 0,
                };
                let other = Message { src: one.dst, dst: one.src, ..one.clone() };
                Ok(Workload::from(vec![one, other]))
            }
            Traffic::Training(fsdp) => fsdp.workload(nodes, self.seed),
        }
        .expect("the paper's workloads fit its fabrics")
    }

    fn network(&self) -> NetworkConfig {
        let room = if self.unlimited { u64::MAX / 2 } else { self.buffer };
        let marked_from = self.scheme.marked_from().map(|percent| self.buffer / 100 * percent);
        let frames = Frames { payload: self.payload, header: HEADER, ack: ACK, gap: GAP };
        let buffer = Buffer::PerPort { bytes: room };
        NetworkConfig {
            marking: marked_from.map(|bytes| Marking {
                low: bytes,
                high: bytes,
                most: 1.0,
                when: When::Leaving,
                of: None,
            }),
            control_first: false,
            ..NetworkConfig::plain(frames, buffer, self.scheme.policy(self.buffer))
        }
    }

    fn host(&self, share: f64) -> HostConfig {
        let recovery = match self.sack {
            None => Recovery::Ideal,
            Some(_) => Recovery::Protocol(LossRecovery::Sack),
        };
        let usual = HostConfig::default();
        HostConfig {
            lb: self.scheme.lb(),
            paths: self.scheme.paths(self.entropies()),
            // HOST DR keeps a pointer per destination host (section 6.1).
            sharing: if self.scheme == OfanScheme::HostDr {
                Sharing::Nothing
            } else {
                Sharing::Edge
            },
            health: false,
            recovery,
            reorder_threshold: self.sack.unwrap_or(usual.reorder_threshold),
            cc: self.congestion_control(),
            share: if self.paced { share * self.left_by_answers() } else { share },
            // An erasure code has no time-outs.
            min_rto: if self.sack.is_some() { usual.min_rto } else { usual.max_rto },
            ..usual
        }
    }

    fn congestion_control(&self) -> CcConfig {
        match self.cc {
            None => CcConfig::new(FixedWindow { window: 1 << 30 }),
            Some(text) => text.parse().expect("the study's controllers have known parameters"),
        }
    }

    /// Returns the share of a link that data has when a host acknowledges as many packets as it
    /// sends.
    fn left_by_answers(&self) -> f64 {
        let Frames { payload, header, ack, gap } = self.frames();
        let (data, answer) = (u32::from(payload) + header + gap, ack + gap);
        f64::from(data) / f64::from(data + answer)
    }

    /// Returns the number of paths: the protocol's maximum, but fewer if every host has every
    /// destination, to save memory.
    fn entropies(&self) -> u16 {
        match self.traffic {
            Traffic::AllToAll => 256,
            _ if self.k > 8 => 1024,
            _ => 4096,
        }
    }

    fn frames(&self) -> Frames {
        Frames { payload: self.payload, header: HEADER, ack: ACK, gap: GAP }
    }

    /// Returns the paper's lower bound, or the time that hosts need at a `share` of their links'
    /// rate.
    fn bound(&self, topology: &Topology, share: f64) -> Ps {
        let (frames, path) = (self.frames(), path());
        let (messages, whole) = match &self.traffic {
            Traffic::Permutation(_) | Traffic::BothWays => {
                (1, bounds::permutation(&frames, &path, self.bytes))
            }
            Traffic::AllToAll => {
                let nodes = topology.hosts();
                let whole = bounds::all_to_all(&frames, &path, nodes, self.bytes);
                (u64::from(nodes) - 1, whole)
            }
            Traffic::Training(fsdp) => {
                let phase = bounds::permutation(&frames, &path, fsdp.bytes_per_flow);
                return phase * fsdp.layers.into();
            }
        };
        let packets = messages * frames.packets(self.bytes);
        let frame = RATE.time_for(u32::from(self.payload) + HEADER + GAP);
        let paced = (frame * (packets - 1)).0 as f64 / share;
        whole.max(Ps(paced as u64) + self.round_trip())
    }

    fn max_queue(&self, run: &Simulation) -> f64 {
        let ports = (0..run.fabric.ports.len() as u32).map(PortId);
        let switches = ports.filter(|port| run.fabric.topology.layer(*port).from != Tier::Host);
        let bytes = switches.map(|port| run.fabric.ports[port.index()].max_bytes).max();
        bytes.unwrap_or(0) as f64 / f64::from(u32::from(self.payload) + HEADER)
    }
}

impl OfanOutcome {
    /// Returns the paper's metric: percent over the lower bound.
    pub(super) fn increase(&self) -> f64 {
        percent_beyond(self.cct, self.bound)
    }

    /// Returns the percent over the lower bound without failures.
    pub(super) fn increase_over_whole(&self) -> f64 {
        percent_beyond(self.cct, self.whole_bound)
    }

    pub(super) fn cct_us(&self) -> f64 {
        self.cct.as_micros_f64()
    }
}

fn worst_loss(run: &Simulation) -> f64 {
    let messages = 0..run.workload().messages.len() as u32;
    let shares = messages.map(|message| {
        let counters = run.hosts.sender_counters(message);
        counters.retransmitted as f64 / counters.segments_sent.max(1) as f64
    });
    shares.fold(0.0, f64::max)
}

fn percent_beyond(cct: Ps, bound: Ps) -> f64 {
    100.0 * (cct.0 as f64 / bound.0 as f64 - 1.0)
}

fn path() -> bounds::Path {
    bounds::Path { rate: RATE, delay: DELAY, hops: HOPS }
}

/// Returns the imbalance of a layer: the fullest link's bytes over their mean, minus 1.
fn overload(run: &Simulation, layer: Layer) -> f64 {
    let ports = (0..run.fabric.ports.len() as u32).map(PortId);
    let links = ports.filter(|port| run.fabric.topology.layer(*port) == layer);
    let bytes: Vec<u64> = links.map(|port| run.fabric.ports[port.index()].sent.bytes).collect();
    let total: u64 = bytes.iter().sum();
    let most = bytes.iter().max().copied().unwrap_or(0);
    if total == 0 { 0.0 } else { most as f64 * bytes.len() as f64 / total as f64 - 1.0 }
}
