//! The queue pairs of a worker that speak plain RoCEv2: their batches, timers and events.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use braid_transport::{AddrPair, Regions, RoceMtu};
use braid_wire::{DEFAULT_PORT, ICRC_LEN, IcrcEnds, QpId, RailId, Time, UdHeader};

use super::peers::Peers;
use super::qps::QpTable;
use super::rails::LocalRails;
use super::roce_qp::Train;
use crate::cuda::Lane;
use crate::datapath::{Datapath, Room, Via};
use crate::events::AsyncEvents;
use crate::random;
use crate::roce::{RoceError, RocePort};
use crate::roce_port::{Claim, RocePorts};
use crate::ud_queues::OutgoingDatagram;

/// Batches sent before the worker receives again.
const BATCHES: usize = 16;
/// Datagrams sent before the worker receives again.
const DATAGRAMS: usize = 64;

/// Opens a datapath at the UDP port of RoCEv2, for a worker that receives elsewhere.
pub(crate) type OpenRocePort = Box<dyn Fn() -> io::Result<Box<dyn Datapath>> + Send>;

/// The addresses at which a worker can receive RoCEv2 packets.
pub(crate) struct RoceAddrs {
    /// The second address of the engine, of the other IP version.
    pub(crate) second: Option<IpAddr>,
    pub(crate) open: OpenRocePort,
    /// The ports that other processes share.
    pub(crate) ports: Arc<RocePorts>,
}

/// The members by their indices in the table of queue pairs, and their port.
pub(crate) struct RoceMembers {
    indices: Vec<usize>,
    /// The queue pair that sends first.
    turn: usize,
    train: Train,
    pub(super) addrs: RoceAddrs,
    /// The port of RoCEv2 of a worker that receives elsewhere. It stays open.
    port: Option<Box<dyn Datapath>>,
    /// The high bits of the numbers of this process's connections, if queue pair 1 is open.
    tag: Option<u8>,
    /// Datagrams that wait for room.
    pub(super) outgoing: VecDeque<OutgoingDatagram>,
    /// Whether there was no room for everything to send.
    is_full: bool,
}

/// The outcome of sending.
#[derive(Clone, Copy, Default)]
pub(super) struct RoceTurn {
    pub(super) worked: bool,
    /// Whether the datapath had no room for everything to send.
    pub(super) is_full: bool,
}

impl RoceMembers {
    pub(super) fn new(addrs: RoceAddrs) -> Self {
        let (indices, train) = (Vec::new(), Train::default());
        let (outgoing, is_full) = (VecDeque::new(), false);
        RoceMembers { indices, turn: 0, train, addrs, port: None, tag: None, outgoing, is_full }
    }

    /// The port of RoCEv2, if it is open beside the rails.
    #[inline]
    pub(super) fn port_mut(&mut self) -> Option<&mut dyn Datapath> {
        self.port.as_mut().map(|port| &mut **port as &mut dyn Datapath)
    }

    pub(super) fn port(&self) -> Option<&dyn Datapath> {
        self.port.as_deref().map(|port| port as &dyn Datapath)
    }

    /// Whether there is neither a member nor anything to send.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.indices.is_empty() && self.outgoing.is_empty() && !self.is_full
    }

    /// Whether datagrams wait for the next round, and not for room.
    #[inline]
    pub(super) fn can_send(&self) -> bool {
        !self.outgoing.is_empty() && !self.is_full
    }

    /// Opens the port of RoCEv2 unless it is open. `local`: where the worker receives.
    pub(super) fn open(&mut self, local: SocketAddr) -> Result<(), RoceError> {
        if self.port.is_none() {
            let local = SocketAddr::new(local.ip(), DEFAULT_PORT);
            let opened = (self.addrs.open)().map_err(|source| RoceError::Port { local, source })?;
            tracing::info!(%local, "receives RoCEv2, too");
            self.port = Some(opened);
        }
        Ok(())
    }

    /// Claims the number by which a peer knows a queue pair, so that no other process of the port
    /// has it. Only the port of RoCEv2 has other processes.
    pub(super) fn claim(&self, port: &RocePort, number: QpId) -> Result<(), RoceError> {
        if port.port != DEFAULT_PORT {
            return Ok(());
        }
        match self.addrs.ports.claim(port.gid, Claim::Qp(number.get())) {
            Ok(true) => Ok(()),
            Ok(false) => Err(RoceError::Number { number }),
            Err(source) => Err(port_error(port, source)),
        }
    }

    /// Returns the tag by which management datagrams find this process, and claims it the first
    /// time.
    pub(super) fn tag(&mut self, port: &RocePort) -> Result<u8, RoceError> {
        if let Some(tag) = self.tag {
            return Ok(tag);
        }
        let found = self.addrs.ports.claim_tag(random::number() as u8);
        let found = found.and_then(|found| {
            found.ok_or_else(|| io::Error::other("256 processes have queue pair 1 already"))
        });
        self.tag = Some(found.map_err(|source| port_error(port, source))?);
        self.tag(port)
    }

    /// Takes the requests for connections to a service.
    pub(super) fn serve(&self, port: &RocePort, service: u64) -> Result<(), RoceError> {
        self.addrs.ports.serve(service).map_err(|source| port_error(port, source))
    }

    /// Gives the number of a queue pair back.
    pub(super) fn release(&self, number: QpId) {
        self.addrs.ports.release(Claim::Qp(number.get()));
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
        let mut result = RoceTurn::default();
        let mut batches = 0;
        'members: for step in 0..count {
            let index = self.indices[(self.turn + step) % count];
            while batches < BATCHES {
                let Some(member) = qps.roce_mut(index) else { break };
                let room = match &mut self.port {
                    Some(port) if member.uses_port() => port.make_room(),
                    _ => rails.make_room(),
                };
                if matches!(room, Room::Full | Room::DeviceFull) {
                    result.is_full = true;
                    break 'members;
                }
                let to = member.to();
                let datapath: &mut dyn Datapath = match &mut self.port {
                    Some(port) if member.uses_port() => &mut **port,
                    _ => rails.of(RailId::FIRST),
                };
                let Some(batch) = datapath.roce_batch(to.remote) else { break };
                self.train.begin(batch, most);
                member.fill(now, &mut self.train, regions);
                if self.train.is_empty() {
                    break;
                }
                let (to, ecn) = self.train.egress(to);
                let Train { bytes, segment_len, .. } = &mut self.train;
                datapath.send_roce(to, bytes, *segment_len, ecn);
                result.worked = true;
                batches += 1;
            }
        }
        self.transmit_datagrams(rails, &mut result);
        if let Some(port) = &mut self.port {
            result.is_full |= !port.flush();
        }
        self.is_full = result.is_full;
        result
    }

    /// Sends waiting datagrams within a budget. A send completes when its datagram leaves.
    fn transmit_datagrams(&mut self, rails: &mut LocalRails, result: &mut RoceTurn) {
        for _ in 0..DATAGRAMS {
            let Some(next) = self.outgoing.front() else { return };
            let datapath: &mut dyn Datapath = match &mut self.port {
                Some(port) if next.uses_port() => &mut **port,
                _ => rails.of(RailId::FIRST),
            };
            if matches!(datapath.make_room(), Room::Full | Room::DeviceFull) {
                result.is_full = true;
                return;
            }
            let Some(mut next) = self.outgoing.pop_front() else { return };
            let len = next.bytes.len();
            datapath.send_alone(next.to, Via::Port, &mut next.bytes, len);
            next.complete();
            result.worked = true;
        }
    }

    /// Sends a management datagram to the host of `to`. Without room the datagram is lost.
    pub(super) fn send_management(
        &mut self,
        rails: &mut LocalRails,
        (mut to, port): (AddrPair, &RocePort),
        (header, payload): (&UdHeader, &[u8]),
    ) {
        let datapath: &mut dyn Datapath = match &mut self.port {
            Some(port) => &mut **port,
            None => rails.of(RailId::FIRST),
        };
        if matches!(datapath.make_room(), Room::Full | Room::DeviceFull) {
            return;
        }
        to.local.ip = Some(port.gid);
        let mut bytes = Vec::with_capacity(header.encoded_len() + payload.len() + ICRC_LEN);
        header.encode(payload, &mut bytes);
        let from = SocketAddr::new(port.gid, port.port);
        // A packet that is alone has the identification 0, whether batches are numbered or not.
        IcrcEnds { from, to: to.remote }.append(&mut bytes, 0);
        let len = bytes.len();
        datapath.send_alone(to, Via::Port, &mut bytes, len);
        datapath.flush();
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
    pub(super) fn settle(
        &self,
        qps: &mut QpTable,
        peers: &Peers,
        events: &AsyncEvents,
        mut lane: Option<&mut Lane>,
    ) {
        for &index in &self.indices {
            if let Some(entry) = qps.at(index) {
                if let Some(lane) = lane.as_deref_mut() {
                    entry.flush_held_roce(lane);
                }
                entry.settle_roce(peers, events);
            }
        }
    }
}

/// The error of a port whose process does not answer.
pub(super) fn port_error(port: &RocePort, source: io::Error) -> RoceError {
    RoceError::Port { local: SocketAddr::new(port.gid, port.port), source }
}

/// Returns the end of RoCEv2 connections to `to` of a datapath that carries them. `second`: its
/// second address.
pub(super) fn roce_port(
    datapath: &dyn Datapath,
    second: Option<IpAddr>,
    to: SocketAddr,
) -> Result<RocePort, RoceError> {
    let (pair, gid, mut local) = (datapath.pair(to), to.ip(), datapath.local_addr());
    let leads = |ip: &IpAddr| ip.to_canonical().is_ipv4() == gid.is_ipv4();
    let is_dual = local.ip().is_unspecified() && local.is_ipv6();
    if !leads(&local.ip()) && !is_dual {
        local.set_ip(second.filter(leads).ok_or(RoceError::Family { gid, local })?);
    }
    let unreachable = |source| RoceError::Unreachable { gid, source };
    let route = datapath.max_datagram(pair).map_err(unreachable)?;
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
