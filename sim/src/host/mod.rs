//! The hosts: endpoints of the shipped protocol, and the interfaces that they share.
//!
//! A message's queue pair has an *end* at either side, each with an endpoint of its own; the papers
//! call it a flow. An interface sends control packets first, and asks its ends for data in turn
//! whenever its link is free. So no packet queues in front of a link while the protocol could still
//! hold it back.

mod config;
mod credit;
mod data_path;
mod direct;
mod end;
mod exchange;
mod memory;
mod nic;
mod nvlink;
mod oracle;
mod paths;
mod waits;

pub use config::{BatchSize, HostConfig, Paths, Recovery, Sharing};
pub use data_path::DataPath;
pub use end::End;
pub use memory::GhostMemory;
pub use nic::NicLoad;
pub use nvlink::NvLink;

use std::time::Duration;

use braid_transport::{OooDegrees, QpCounters};

use self::direct::NicQps;
use self::end::EndSettings;
use self::memory::message_at;
use self::nic::Nic;
use self::nvlink::NvLinks;
use self::oracle::Deliveries;
use self::paths::PathSets;
use self::waits::TimeoutWaits;
use crate::fabric::Fabric;
use crate::packet::{EndId, Packet};
use crate::prefetch;
use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::Workload;

/// All hosts of a run.
#[derive(Debug)]
pub struct Hosts {
    pub(crate) config: HostConfig,
    settings: EndSettings,
    pub(crate) ends: Vec<End>,
    pub(crate) nics: Vec<Nic>,
    /// The sending end of each message.
    end_of: Vec<EndId>,
    sets: PathSets,
    memory: GhostMemory,
    nic_qps: NicQps,
    nvlinks: Option<NvLinks>,
    pub(crate) deliveries: Deliveries,
    waits: TimeoutWaits,
    /// The reordering extent over the receivers that have finished.
    degrees: OooDegrees,
    /// Events for the workload since the driver asked last.
    pub(crate) news: Vec<News>,
}

/// An event that a workload may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The receiver has the completion of the message.
    Delivered(u32),
    /// The sender has the completion of the message.
    Acknowledged(u32),
}

/// The failure of a queue pair, which ends the run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the message from interface {src} to {dst} failed at {at}: {why}; \
      raise `retry_timeout`, or repair the fabric"
)]
pub struct Failed {
    /// The sending interface.
    pub src: u32,
    /// The receiving interface.
    pub dst: u32,
    /// The time of the failure.
    pub at: Ps,
    /// The status of the completion, or the event.
    pub why: String,
}

impl Hosts {
    /// Creates hosts with a queue pair for every flow of the workload. Set-up takes no time.
    /// `mtu`: payload bytes of a full segment.
    pub fn new(
        topology: &Topology,
        workload: &Workload,
        config: HostConfig,
        mtu: u16,
        seed: u64,
    ) -> Hosts {
        let mut sets = PathSets::new(&config, topology, seed);
        let (ends, end_of) = end::plan(topology, workload, &config, &mut sets);
        Hosts {
            settings: EndSettings::new(topology, &config, mtu),
            ends,
            nics: nic::all(topology, credit::grant_bytes(mtu)),
            end_of,
            sets,
            memory: GhostMemory::new(),
            nic_qps: NicQps::default(),
            nvlinks: config.nvlink.clone().map(NvLinks::new),
            deliveries: Deliveries::new(workload),
            waits: TimeoutWaits::default(),
            degrees: OooDegrees::default(),
            news: Vec::new(),
            config,
        }
    }

    /// Limits path sets whose paths are routes to the routes of the fabric.
    pub(crate) fn follow_routes(&mut self, fabric: &Fabric) {
        self.sets.follow_routes(&fabric.topology, &fabric.routes);
    }

    /// Returns the payload bytes that each interface has sent and received, by its number.
    pub fn nic_loads(&self) -> impl Iterator<Item = NicLoad> + '_ {
        self.nics.iter().map(|nic| nic.load)
    }

    /// Returns the time at which a packet that has reached an interface is in its GPU's memory.
    /// `None`: at once.
    pub(crate) fn memory_arrival(
        &mut self,
        packet: &Packet,
        fabric: &Fabric,
        now: Ps,
    ) -> Option<Ps> {
        let links = self.nvlinks.as_mut()?;
        let (header, _) = fabric.bodies.data(packet)?;
        links.enter(now, packet, header)
    }

    /// Returns the sum of the counters of all queue pairs, senders and receivers.
    pub fn counters(&self) -> QpCounters {
        let mut sum = QpCounters::default();
        for end in &self.ends {
            sum += end.past().counters;
        }
        sum
    }

    /// Returns the counters of the queue pair that sends a message.
    ///
    /// # Panics
    /// Panics if there is no such message.
    pub fn sender_counters(&self, message: u32) -> QpCounters {
        self.ends[self.end_of[message as usize].index()].past().counters
    }

    /// Returns the retransmission time-out of the queue pair that sends a message, without backoff.
    ///
    /// # Panics
    /// Panics if there is no such message.
    pub fn sender_rto(&self, message: u32) -> Duration {
        self.ends[self.end_of[message as usize].index()].past().rto
    }

    /// Returns the part of an interval that the sender of a message has waited for retransmission
    /// time-outs.
    ///
    /// # Panics
    /// Panics if there is no such message.
    pub fn timeout_wait(&self, message: u32, from: Ps, to: Ps) -> Ps {
        self.waits.within(self.end_of[message as usize], from, to)
    }

    /// Returns the reordering extent over all receivers.
    pub fn ooo_degrees(&self) -> OooDegrees {
        let mut all = self.degrees.clone();
        let in_use = self.ends.iter().filter_map(End::in_use);
        let degrees = in_use.filter_map(|protocol| protocol.qp().ooo_degrees());
        degrees.for_each(|degrees| all.merge(degrees));
        all
    }

    /// Returns the end that an interface will ask next for a packet.
    #[inline]
    pub(crate) fn next_of(&self, nic: u32) -> Option<EndId> {
        self.nics[nic as usize].next()
    }

    /// Requests an interface.
    #[inline(always)]
    pub(crate) fn expect_interface(&self, nic: u32) {
        prefetch::element(&self.nics, nic as usize);
    }

    /// Requests the account of a message. The body of its packet has been requested.
    #[inline]
    pub(crate) fn expect_account(&self, frame: &Packet, fabric: &Fabric) {
        if let Some((header, _)) = fabric.bodies.data(frame) {
            self.deliveries.expect(message_at(header.address));
        }
    }

    /// Requests the path that an acknowledgement is feedback on: it takes the path that it echoes.
    /// The end and its path set have been requested.
    #[inline]
    pub(crate) fn expect_path(&self, frame: &Packet) {
        self.sets.expect_path(self.ends[frame.end as usize].paths, frame.path);
    }

    /// Requests the path of the next departure from an interface. Its end and the path set have
    /// been requested.
    #[inline]
    pub(crate) fn expect_departure(&self, nic: u32) {
        if let Some(end) = self.next_of(nic) {
            self.sets.expect_departure(self.ends[end.index()].paths);
        }
    }

    /// Requests a part of an end. Each step reads what the step before has requested.
    #[inline(always)]
    pub(crate) fn expect(&self, id: EndId, step: u8) {
        let end = &self.ends[id.index()];
        if step == 0 {
            return prefetch::value(end);
        }
        let Some(protocol) = end.in_use() else { return };
        let (endpoint, slot) = (&protocol.endpoint, protocol.slot);
        match step {
            1 => prefetch::value(protocol),
            2 => {
                // All receivers share a path set.
                if id.sends() {
                    self.sets.expect(end.paths);
                }
                endpoint.state_of(slot, id.sends(), 0, prefetch::bytes);
            }
            3 => endpoint.state_of(slot, id.sends(), 1, prefetch::bytes),
            _ => endpoint.state_of(slot, id.sends(), 2, prefetch::bytes),
        }
    }
}
