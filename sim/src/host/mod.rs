//! The hosts: endpoints of the shipped protocol, and the interfaces that they share.
//!
//! A message's queue pair has an *end* at either side, each with an endpoint of its own: what the papers
//! call a flow. An interface sends control first and asks its ends for data in turn whenever its link is
//! free: nothing waits in front of a link that the protocol could still have held back.

mod config;
mod data_path;
mod direct;
mod end;
mod exchange;
mod memory;
mod nic;
mod nvlink;
mod oracle;
mod paths;

pub use config::{HostConfig, Paths, Recovery, Sharing};
pub use data_path::DataPath;
pub use end::End;
pub use memory::GhostMemory;
pub use nic::NicLoad;
pub use nvlink::NvLink;

use braid_transport::{OooDegrees, QpCounters};

use self::direct::NicQps;
use self::nic::Nic;
use self::nvlink::NvLinks;
use self::oracle::Deliveries;
use self::paths::PathSets;
use crate::fabric::Fabric;
use crate::packet::{EndId, Packet};
use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::Workload;

/// All hosts of a run.
#[derive(Debug)]
pub struct Hosts {
    pub(crate) config: HostConfig,
    pub(crate) ends: Vec<End>,
    pub(crate) nics: Vec<Nic>,
    /// By message: the sending end.
    end_of: Vec<EndId>,
    sets: PathSets,
    memory: GhostMemory,
    nic_qps: NicQps,
    nvlinks: Option<NvLinks>,
    pub(crate) deliveries: Deliveries,
    /// What has come about since the driver asked last.
    pub(crate) news: Vec<News>,
}

/// Something that a workload may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The receiver has its completion.
    Delivered(u32),
    /// The sender has its completion.
    Acknowledged(u32),
}

/// A queue pair that gave up: the run has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the message from interface {src} to {dst} failed at {at}: {why}; raise `retry_timeout`, or mend the fabric"
)]
pub struct Failed {
    /// Where it came from.
    pub src: u32,
    /// Where it was to go.
    pub dst: u32,
    /// When.
    pub at: Ps,
    /// The completion's status, or the event.
    pub why: String,
}

impl Hosts {
    /// Hosts with a connected queue pair for everything that the workload sends.
    /// `mtu`: payload bytes of a full segment.
    pub fn new(
        topology: &Topology,
        workload: &Workload,
        config: HostConfig,
        mtu: u16,
        seed: u64,
    ) -> Hosts {
        let mut sets = PathSets::new(&config, topology, seed);
        let memory = GhostMemory::new();
        let (ends, end_of) = end::connect(topology, workload, &config, &memory, &mut sets, mtu);
        let nics = nic::all(topology);
        let deliveries = Deliveries::new(workload);
        let (nic_qps, news) = (NicQps::default(), Vec::new());
        let nvlinks = config.nvlink.as_ref().map(|plan| NvLinks::new(plan, workload));
        Hosts { config, ends, nics, end_of, sets, memory, nic_qps, nvlinks, deliveries, news }
    }

    /// Bytes of payload that each interface has sent and received, by its number.
    pub fn nic_loads(&self) -> impl Iterator<Item = NicLoad> + '_ {
        self.nics.iter().map(|nic| nic.load)
    }

    /// When a packet that has come to an interface is where it belongs; `None`: it is.
    pub(crate) fn on_its_way(&mut self, packet: &Packet, fabric: &Fabric, now: Ps) -> Option<Ps> {
        let (header, _) = fabric.bodies.data(packet)?;
        self.nvlinks.as_mut()?.enter(now, packet, header)
    }

    /// The counters of all queue pairs, senders' and receivers', added up.
    pub fn counters(&self) -> QpCounters {
        let mut sum = QpCounters::default();
        for end in &self.ends {
            sum += end.endpoint.qp(end.slot).counters();
        }
        sum
    }

    /// The counters of the queue pair that sends a message.
    ///
    /// # Panics
    /// If there is no such message.
    pub fn sender_counters(&self, message: u32) -> QpCounters {
        let end = &self.ends[self.end_of[message as usize].index()];
        end.endpoint.qp(end.slot).counters()
    }

    /// How far out of order packets came, at all receivers.
    pub fn ooo_degrees(&self) -> OooDegrees {
        let mut all = OooDegrees::default();
        let degrees = self.ends.iter().filter_map(|end| end.endpoint.qp(end.slot).ooo_degrees());
        degrees.for_each(|degrees| all.merge(degrees));
        all
    }
}
