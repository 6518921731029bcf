//! Queue pairs of the unreliable datagram (UD) service of plain RoCEv2: the worker's part.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::{Access, AddrPair, Completion, Landing, RecvWr, SgList, Sge, Status, Work};
use braid_wire::{DEFAULT_PORT, IcrcEnds, NETWORK_HEADER_LEN, QpId, UdPacket};

use super::{Worker, landing};
use crate::cq::CqShared;
use crate::events::AsyncEvents;
use crate::memory::Checked;
use crate::roce::RoceError;
use crate::roce_ud::RoceUdAddress;
use crate::srq::SrqShared;

/// Bytes of the longest datagram: the largest path MTU.
const MAX_PAYLOAD: usize = 4096;

/// The addresses of an engine, at most one of each IP version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdGids {
    first: IpAddr,
    second: Option<IpAddr>,
    port: u16,
}

impl UdGids {
    /// The address that packets of the host `from` are sent to.
    fn called_by(&self, from: SocketAddr) -> Option<SocketAddr> {
        let mut gids = [Some(self.first), self.second].into_iter().flatten();
        let gid = gids.find(|gid| gid.is_ipv4() == from.is_ipv4())?;
        Some(SocketAddr::new(gid, self.port))
    }
}

/// A queue pair of the UD service, as its worker and its posting threads know it.
pub(crate) struct UdQueues {
    /// The number by which peers know it.
    pub(crate) number: QpId,
    /// The number that completions bear.
    pub(crate) completes_as: QpId,
    pub(crate) q_key: AtomicU32,
    pub(crate) send_cq: Arc<CqShared>,
    pub(crate) recv_cq: Arc<CqShared>,
    pub(crate) receives: Arc<SrqShared>,
    pub(crate) gids: UdGids,
    /// Sends that have not completed.
    pub(crate) outstanding: AtomicU32,
    /// The number of the next packet.
    pub(crate) psn: AtomicU32,
}

/// A packet of the UD service that has arrived.
pub(super) struct UdArrival<'a> {
    pub(super) packet: UdPacket<'a>,
    pub(super) from: SocketAddr,
    /// The packet with its headers.
    pub(super) bytes: &'a [u8],
    /// The place among the packets that arrived together, see [`IcrcEnds::check`].
    pub(super) place: usize,
}

/// The reason why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UdRefusal {
    Malformed,
    Key,
    Damaged,
    NoReceive,
}

impl UdQueues {
    /// Takes a datagram: places it in the oldest receive, which completes.
    ///
    /// If the receive is too short, or its memory is gone, the receive fails and the datagram is
    /// lost. The queue pair goes on, because anybody could end it otherwise.
    pub(super) fn take(
        &self,
        arrival: &UdArrival<'_>,
        memory: &Checked<'_>,
        events: &AsyncEvents,
    ) -> Result<(), UdRefusal> {
        let UdPacket { header, payload } = arrival.packet;
        // No queue pair has the number 0.
        if payload.len() > MAX_PAYLOAD || header.source == QpId::default() {
            return Err(UdRefusal::Malformed);
        }
        if header.q_key != self.q_key.load(Ordering::Acquire) {
            return Err(UdRefusal::Key);
        }
        let from = SocketAddr::new(arrival.from.ip().to_canonical(), arrival.from.port());
        let to = self.gids.called_by(from).ok_or(UdRefusal::Malformed)?;
        let ends = IcrcEnds { from, to };
        let id = ends.check(arrival.bytes, arrival.place as u16).ok_or(UdRefusal::Damaged)?;
        let wr = self.receives.take(events).ok_or(UdRefusal::NoReceive)?;
        let network_header = ends.network_header(arrival.bytes.len(), id);
        let status = match self.landing(&wr, payload.len(), memory) {
            Ok(place) => match landing::land(memory, &place, &[&network_header, payload]) {
                Ok(()) => Status::Success,
                Err(_) => Status::LocalProtection,
            },
            Err(status) => status,
        };
        self.receives.release(1);
        let completion = Completion {
            qp: self.completes_as,
            wr_id: wr.id,
            work: Work::Recv,
            status,
            len: (NETWORK_HEADER_LEN + payload.len()) as u32,
            imm: header.imm,
            solicited: header.solicited,
            source: header.source,
        };
        push(&self.recv_cq, completion);
        Ok(())
    }

    /// The checked pieces of a receive that a datagram of `len` bytes goes to.
    fn landing(&self, wr: &RecvWr, len: usize, memory: &Checked<'_>) -> Result<Landing, Status> {
        let mut left = (NETWORK_HEADER_LEN + len) as u32;
        let (pd, mut pieces) = (self.receives.pd(), SgList::new());
        for piece in &wr.sges {
            let len = piece.len.min(left);
            let (key, needed) = (piece.lkey, Access::LOCAL_WRITE);
            let addr = memory.regions.check(pd, key, piece.addr, len.into(), needed);
            let addr = addr.map_err(|_| Status::LocalProtection)?;
            pieces.push(Sge { addr, len, ..*piece });
            left -= len;
        }
        if left == 0 { Ok(Landing::Payload(pieces)) } else { Err(Status::LocalLength) }
    }
}

/// A datagram that waits for room, with its ICRC.
pub(crate) struct OutgoingDatagram {
    pub(crate) of: Arc<UdQueues>,
    pub(crate) to: AddrPair,
    pub(crate) bytes: Vec<u8>,
    pub(crate) wr_id: u64,
    pub(crate) signalled: bool,
}

impl OutgoingDatagram {
    /// Whether the peer receives at the UDP port of RoCEv2.
    pub(super) fn uses_port(&self) -> bool {
        self.to.remote.port() == DEFAULT_PORT
    }

    /// Completes the send.
    pub(super) fn complete(&self) {
        self.of.outstanding.fetch_sub(1, Ordering::AcqRel);
        if !self.signalled {
            return;
        }
        let completion = Completion {
            qp: self.of.completes_as,
            wr_id: self.wr_id,
            work: Work::Send,
            status: Status::Success,
            len: 0,
            imm: None,
            solicited: false,
            source: QpId::default(),
        };
        push(&self.of.send_cq, completion);
    }
}

/// Pushes a completion. Without room for it, all queue pairs that use the queue end.
fn push(cq: &CqShared, completion: Completion) {
    if !cq.push(completion) {
        cq.announce_overrun();
    }
}

impl Worker {
    /// Opens a queue pair of the UD service, which `open` makes.
    pub(crate) fn open_ud(
        &mut self,
        port: u16,
        open: impl FnOnce(UdGids) -> UdQueues,
    ) -> Result<Arc<UdQueues>, RoceError> {
        let local = self.rails.first().local_addr();
        if local.ip().is_unspecified() {
            return Err(RoceError::Wildcard { local });
        }
        // Any address of the engine's IP version shows whether the datapath is fit for it.
        let receives_at = self.roce_port(SocketAddr::new(local.ip(), port))?.port;
        let (first, second) = (local.ip().to_canonical(), self.roce.addrs.second);
        let queues = Arc::new(open(UdGids { first, second, port: receives_at }));
        let number = queues.number;
        if self.qps.datagrams.contains_key(&number) {
            return Err(RoceError::Number { number });
        }
        self.qps.datagrams.insert(number, queues.clone());
        Ok(queues)
    }

    /// Closes a queue pair of the UD service. Returns the ids of the sends that have not left.
    pub(crate) fn close_ud(&mut self, queues: &Arc<UdQueues>) -> Vec<u64> {
        let is_it = |other: &Arc<UdQueues>| Arc::ptr_eq(other, queues);
        if self.qps.datagrams.get(&queues.number).is_some_and(is_it) {
            self.qps.datagrams.remove(&queues.number);
        }
        let mut left = Vec::new();
        self.roce.outgoing.retain(|datagram| {
            let stays = !is_it(&datagram.of);
            left.extend((!stays).then_some(datagram.wr_id));
            stays
        });
        left
    }

    /// The address of a peer of the UD service.
    pub(crate) fn ud_address(&mut self, to: SocketAddr) -> Result<RoceUdAddress, RoceError> {
        let port = self.roce_port(to)?;
        let mut pair = self.roce_datapath(to).pair(to);
        pair.local.ip = Some(port.gid);
        Ok(RoceUdAddress { pair, from: SocketAddr::new(port.gid, port.port), mtu: port.mtu })
    }

    /// Queues a datagram. It leaves in the next round.
    pub(crate) fn send_ud(&mut self, datagram: OutgoingDatagram) {
        self.roce.outgoing.push_back(datagram);
    }
}
