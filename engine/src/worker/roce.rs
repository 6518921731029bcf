//! The queue pairs of a worker that speak plain RoCEv2: their batches, timers and events.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use braid_transport::{Regions, RoceMtu};
use braid_wire::{DEFAULT_PORT, RailId, Time};

use super::peers::Peers;
use super::qps::QpTable;
use super::rails::LocalRails;
use super::roce_qp::Train;
use crate::datapath::{Room, Via};
use crate::events::AsyncEvents;
use crate::roce::{RoceError, RocePort};

/// Batches sent before the worker receives again.
const BATCHES: usize = 16;

/// The members by their indices in the table of queue pairs.
#[derive(Default)]
pub(crate) struct RoceMembers {
    indices: Vec<usize>,
    /// The queue pair that sends first.
    turn: usize,
    train: Train,
}

/// The outcome of sending.
#[derive(Clone, Copy, Default)]
pub(super) struct RoceTurn {
    pub(super) worked: bool,
    /// Whether the datapath had no room for everything to send.
    pub(super) is_full: bool,
}

impl RoceMembers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    pub(super) fn insert(&mut self, index: usize) {
        self.indices.push(index);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.indices.retain(|other| *other != index);
    }

    /// Sends waiting packets within a budget. `most`: bytes and packets of a batch.
    #[cold]
    pub(super) fn transmit(
        &mut self,
        now: Time,
        qps: &mut QpTable,
        rails: &mut LocalRails,
        most: (usize, u32),
        regions: &Regions,
    ) -> RoceTurn {
        let count = self.indices.len();
        self.turn = self.turn.wrapping_add(1);
        self.train.bytes.reserve(most.0);
        let (mut worked, mut batches) = (false, 0);
        for step in 0..count {
            let index = self.indices[(self.turn + step) % count];
            while batches < BATCHES {
                if matches!(rails.make_room(), Room::Full | Room::DeviceFull) {
                    return RoceTurn { worked, is_full: true };
                }
                let Some(member) = qps.roce_mut(index) else { break };
                let (to, datapath) = (member.to(), rails.of(RailId::FIRST));
                let Some(batch) = datapath.roce_batch(to.remote) else { break };
                self.train.begin(batch, most);
                member.fill(now, &mut self.train, regions);
                if self.train.is_empty() {
                    break;
                }
                let Train { bytes, segment_len, .. } = &mut self.train;
                datapath.send_alone(to, Via::Port, bytes, *segment_len);
                worked = true;
                batches += 1;
            }
        }
        RoceTurn { worked, is_full: false }
    }

    /// Runs the timers. Returns whether one was due.
    pub(super) fn run_timers(&self, now: Time, qps: &mut QpTable) -> bool {
        let mut was_due = false;
        for &index in &self.indices {
            if let Some(member) = qps.roce_mut(index)
                && member.qp.next_timeout().is_some_and(|at| at <= now)
            {
                member.qp.on_timeout(now);
                was_due = true;
            }
        }
        was_due
    }

    /// The next time at which a timer is due.
    pub(super) fn next_timeout(&self, qps: &QpTable) -> Option<Time> {
        let members = self.indices.iter();
        members.filter_map(|index| qps.roce(*index)?.qp.next_timeout()).min()
    }

    /// Delivers events and completions.
    pub(super) fn settle(&self, qps: &mut QpTable, peers: &Peers, events: &AsyncEvents) {
        for &index in &self.indices {
            if let Some(entry) = qps.at(index) {
                entry.settle_roce(peers, events);
            }
        }
    }
}

/// Returns a worker's end of RoCEv2 connections to `to`. `protocol`: of its datapath.
pub(super) fn roce_port(
    rails: &LocalRails,
    to: SocketAddr,
    protocol: &'static str,
) -> Result<RocePort, RoceError> {
    let rail = rails.first();
    let (local, gid) = (rail.local_addr(), to.ip());
    if rail.roce_batch(to).is_none() {
        return Err(RoceError::Datapath { protocol });
    }
    let is_dual = local.ip().is_unspecified() && local.is_ipv6();
    if local.ip().to_canonical().is_ipv4() != gid.is_ipv4() && !is_dual {
        return Err(RoceError::Family { gid, local });
    }
    if to.port() == DEFAULT_PORT && local.port() != DEFAULT_PORT {
        return Err(RoceError::Port { local });
    }
    let unreachable = |source| RoceError::Unreachable { gid, source };
    let route = rail.max_datagram(rail.pair(to)).map_err(unreachable)?;
    let least = RoceMtu::B256;
    let mtu = RoceMtu::within(route).ok_or(RoceError::PathMtu { gid, mtu: least, route })?;
    let own = match local.ip().is_unspecified() {
        true => source_towards(to).map_err(unreachable)?,
        false => local.ip().to_canonical(),
    };
    Ok(RocePort { gid: own, port: local.port(), mtu })
}

/// The address from which the routing table sends to `to`.
fn source_towards(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}
