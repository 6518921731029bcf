//! The set-up of a run. RailS describes little of its network, and gives no numbers.

use std::time::Duration;

use braid_cc::CcConfig;
use braid_lb::RailScheme;

use braid_sim::fabric::{Buffer, Marking, NetworkConfig, When};
use braid_sim::frames::Frames;
use braid_sim::host::{DataPath, HostConfig, NvLink, Paths, Recovery};
use braid_sim::planning::{Planned, planned};
use braid_sim::simulation::Plan;
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{RailOptimised, Topology};
use braid_sim::workload::{Message, Start, Workload};

use super::load::{Flow, Load, RAILS};
use super::rounds::{CHUNK, shares};
use super::scheme::{RailsScheme, Spraying};
use crate::shipped::Product;

/// Rate of every link: R2.
pub(super) const RATE_GBPS: u64 = 400;
const DELAY: Ps = Ps::from_micros(1);
pub(super) const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 0 };
/// Threshold of the marks that PLB and REPS need.
const MARKED_FROM: u64 = 400_000;
const ALL_MARKED: Marking =
    Marking { low: MARKED_FROM, high: MARKED_FROM, most: 1.0, when: When::Leaving, of: None };
/// A round trip over a spine at R2 is 8.4 us: 420 KB.
pub(super) const WINDOW: &str = "fixed:400K";
pub(super) const SEND_QUEUE: u64 = 256 << 10;

/// The parameters of a run without its seed. Each field is an assumption.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RailsSetup {
    pub(super) scheme: RailsScheme,
    pub(super) load: Load,
    /// Bytes that a GPU sends on average.
    pub(super) mean: u64,
    pub(super) domains: usize,
    /// Number of spines, each with a link to each leaf.
    pub(super) spines: usize,
    /// Congestion control of each subflow in text form.
    pub(super) cc: &'static str,
    /// Maximum bytes of a planned chunk.
    pub(super) chunk: u64,
    /// Bytes queued at an interface from which it takes no further chunk.
    pub(super) send_queue: u64,
    /// Buffer bytes per port of a switch.
    pub(super) buffer: u64,
    /// R1 over R2. `None`: unlimited.
    pub(super) nvlink: Option<u64>,
    pub(super) product: Product,
}

impl RailsSetup {
    pub(super) fn new(scheme: RailsScheme, load: Load, mean: u64) -> RailsSetup {
        RailsSetup {
            scheme,
            load,
            mean,
            domains: 8,
            spines: 8,
            cc: WINDOW,
            chunk: CHUNK,
            send_queue: SEND_QUEUE,
            buffer: 1 << 40,
            nvlink: None,
            product: Product::Paper,
        }
    }

    pub(super) fn flows(&self) -> Vec<Flow> {
        self.load.flows(self.domains, self.mean)
    }

    pub(super) fn plan(&self, flows: &[Flow], seed: u64) -> Plan {
        let topology = self.topology();
        let (workload, gpus) = self.workload(flows, &topology);
        Plan {
            topology,
            network: NetworkConfig {
                marking: Some(ALL_MARKED),
                ..NetworkConfig::plain(
                    FRAMES,
                    Buffer::PerPort { bytes: self.buffer },
                    Policy::Source,
                )
            },
            host: self.product.hosts(self.host(gpus)),
            workload,
            changes: Vec::new(),
            seed,
            limit: Ps::from_micros(10_000_000),
        }
    }

    fn topology(&self) -> Topology {
        let (hosts, rate) = (self.domains as u32, Rate::from_gbps(RATE_GBPS));
        let plan = RailOptimised {
            hosts,
            rails: RAILS as u32,
            hosts_per_leaf: hosts,
            spines: self.spines as u32,
            links_per_spine: 1,
            host_rate: rate,
            fabric_rate: rate,
            delay: DELAY,
        };
        plan.build().expect("the study's fabrics can be built")
    }

    /// Returns the paper's hosts. `gpus`: the source and destination GPU of each message.
    fn host(&self, gpus: Vec<(u32, u32)>) -> HostConfig {
        let (data_path, rail_scheme) = match self.scheme.spraying {
            Spraying::ByHosts(data_path, rails) => (data_path, rails),
            Spraying::Planned | Spraying::PlannedBy(_) => (DataPath::Own, RailScheme::default()),
        };
        let nvlink =
            self.nvlink.map(|times| NvLink { rate: Rate::from_gbps(times * RATE_GBPS), gpus });
        HostConfig {
            lb: self.scheme.lb,
            data_path,
            rail_scheme,
            send_queue: self.send_queue,
            nvlink,
            paths: Paths::Source,
            health: false,
            recovery: Recovery::Ideal,
            cc: self.cc.parse::<CcConfig>().expect("the study's controllers exist"),
            min_rto: Duration::from_millis(100),
            max_rto: Duration::from_secs(1),
            ..HostConfig::default()
        }
    }

    /// Returns the messages and the GPUs of each. The group of a message is its flow. Each flow has
    /// its own queue pair on each rail that it uses.
    fn workload(&self, flows: &[Flow], topology: &Topology) -> (Workload, Vec<(u32, u32)>) {
        let message = |flow: usize, src: usize, dst: usize, bytes: u64| Message {
            src: src as u32,
            dst: dst as u32,
            bytes,
            start: Start::At(Ps::ZERO),
            queue: flow as u32,
            group: flow as u32,
        };
        let numbered = || flows.iter().enumerate();
        let whole = || {
            let flows = numbered();
            let all = flows.map(|(number, flow)| message(number, flow.from, flow.to, flow.bytes));
            Workload::from(all.collect::<Vec<_>>())
        };
        let workload = match self.scheme.spraying {
            Spraying::ByHosts(..) => whole(),
            Spraying::Planned => {
                let planned = planned(topology, &whole(), self.chunk);
                let Planned { workload, gpus } = planned.expect("all flows start together");
                return (workload, gpus);
            }
            Spraying::PlannedBy(ties) => {
                let parts = shares(flows, self.domains, ties, self.chunk).into_iter();
                let messages = parts.map(|share| {
                    let flow = flows[share.flow];
                    let nic = |domain: usize| domain * RAILS + share.rail;
                    let (src, dst) = (nic(flow.source()), nic(flow.destination()));
                    message(share.flow, src, dst, share.bytes)
                });
                Workload::from(messages.collect::<Vec<_>>())
            }
        };
        workload.check(topology.nics.len() as u32).expect("the study's loads can be sent");
        let gpus = |message: &Message| {
            let flow = flows[message.group as usize];
            (flow.from as u32, flow.to as u32)
        };
        let gpus = workload.messages.iter().map(gpus).collect();
        (workload, gpus)
    }
}
