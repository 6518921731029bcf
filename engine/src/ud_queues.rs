//! Queue pairs of the unreliable datagram (UD) service of plain RoCEv2, as the worker and the
//! posting threads share them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::{
    Access, AddrPair, Completion, Landing, RecvWr, Regions, SgList, Sge, Status, Work,
};
use braid_wire::{DEFAULT_PORT, IcrcEnds, NETWORK_HEADER_LEN, QpId, UdPacket};

use crate::cq::CqShared;
use crate::events::AsyncEvents;
use crate::srq::SrqShared;

/// Bytes of the longest datagram: the largest path MTU.
const MAX_PAYLOAD: usize = 4096;

/// The addresses of an engine, at most one of each IP version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdGids {
    pub(crate) first: IpAddr,
    pub(crate) second: Option<IpAddr>,
    pub(crate) port: u16,
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
pub(crate) struct UdArrival<'a> {
    pub(crate) packet: UdPacket<'a>,
    pub(crate) from: SocketAddr,
    /// The packet with its headers.
    pub(crate) bytes: &'a [u8],
    /// The place among the packets that arrived together, see [`IcrcEnds::check`].
    pub(crate) place: usize,
}

/// A receive that a datagram has taken.
pub(crate) struct UdReceive {
    pub(crate) wr_id: u64,
    /// The bytes before the payload.
    pub(crate) network_header: [u8; NETWORK_HEADER_LEN],
    /// The place of the datagram, or the reason why the receive fails.
    pub(crate) landing: Result<Landing, Status>,
}

/// The reason why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UdRefusal {
    Malformed,
    Key,
    Damaged,
    NoReceive,
}

impl UdQueues {
    /// Takes the oldest receive for a datagram. Its memory is to be filled next, and then
    /// [`UdQueues::complete`] called.
    ///
    /// If the receive is too short, or its memory is gone, the receive fails and the datagram is
    /// lost. The queue pair goes on, because anybody could end it otherwise.
    pub(crate) fn admit(
        &self,
        arrival: &UdArrival<'_>,
        regions: &Regions,
        events: &AsyncEvents,
    ) -> Result<UdReceive, UdRefusal> {
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
        Ok(UdReceive {
            wr_id: wr.id,
            network_header: ends.network_header(arrival.bytes.len(), id),
            landing: self.landing(&wr, payload.len(), regions),
        })
    }

    /// Completes the receive of a datagram.
    pub(crate) fn complete(&self, packet: &UdPacket<'_>, wr_id: u64, status: Status) {
        self.receives.release(1);
        let UdPacket { header, payload } = packet;
        let completion = Completion {
            qp: self.completes_as,
            wr_id,
            work: Work::Recv,
            status,
            len: (NETWORK_HEADER_LEN + payload.len()) as u32,
            imm: header.imm,
            solicited: header.solicited,
            source: header.source,
        };
        push(&self.recv_cq, completion);
    }

    /// The checked pieces of a receive that a datagram of `len` bytes goes to.
    fn landing(&self, wr: &RecvWr, len: usize, regions: &Regions) -> Result<Landing, Status> {
        let mut left = (NETWORK_HEADER_LEN + len) as u32;
        let (pd, mut pieces) = (self.receives.pd(), SgList::new());
        for piece in &wr.sges {
            let len = piece.len.min(left);
            let (key, needed) = (piece.lkey, Access::LOCAL_WRITE);
            let addr = regions.check(pd, key, piece.addr, len.into(), needed);
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
    /// Bytes of the payload.
    pub(crate) len: u32,
    pub(crate) wr_id: u64,
    pub(crate) signalled: bool,
}

impl OutgoingDatagram {
    /// Whether the peer receives at the UDP port of RoCEv2.
    pub(crate) fn uses_port(&self) -> bool {
        self.to.remote.port() == DEFAULT_PORT
    }

    /// Completes the send.
    pub(crate) fn complete(&self) {
        self.of.outstanding.fetch_sub(1, Ordering::AcqRel);
        if !self.signalled {
            return;
        }
        let completion = Completion {
            qp: self.of.completes_as,
            wr_id: self.wr_id,
            work: Work::Send,
            status: Status::Success,
            len: self.len,
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
