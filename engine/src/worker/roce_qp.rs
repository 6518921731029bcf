//! A queue pair that speaks plain RoCEv2: its addresses, and its packets in both directions.
//!
//! Its packets leave from the receiving port of the first rail, whose socket is not connected. The
//! kernel then gives IPv4 packets the identification 0, or their place in a batch. So an ICRC can
//! be computed ([`IcrcEnds`]).

use std::net::SocketAddr;

use braid_transport::{
    AddrPair, Admit, EndCause, Landing, QueuePair, RcArrival, RcQp, RcRemote, RcTransmit, Regions,
    RoceMtu,
};
use braid_wire::{DEFAULT_PORT, ICRC_LEN, IcrcEnds, QpId, RcHeader, RcOpcode, RcPacket, Time};

use super::{device, landing};
use crate::cuda;
use crate::datapath::Readable;
use crate::link::roce_batch::RoceBatch;
use crate::memory::Checked;
use crate::roce::{RocePort, RoceRemote};

/// Bytes of the BTH, which the ICRC begins with.
const BTH_LEN: usize = 12;
/// The traffic class of CNPs: DSCP 48 (CS6), as ConnectX has it, so that they overtake the queue
/// that they report.
const CNP_TRAFFIC_CLASS: u8 = 48 << 2;

/// A connected queue pair.
pub(crate) struct RoceQp {
    pub(crate) qp: RcQp,
    /// The peer, and the local address.
    to: AddrPair,
    /// The addresses of outgoing packets.
    ends: IcrcEnds,
    mtu: RoceMtu,
    /// The number by which the peer knows this queue pair, unless it is the engine's.
    number: Option<QpId>,
    /// Whether requests and responses to READs leave ECN-capable: DCQCN is on.
    ecn: bool,
    /// A packet that did not fit the batch before.
    held: Option<RcTransmit>,
}

/// Packets that leave with the same traffic class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum TrainClass {
    /// Without ECN.
    #[default]
    Plain,
    /// ECN-capable.
    Ecn,
    /// Congestion notification packets, without ECN.
    Cnp,
}

impl RoceQp {
    /// Connects a queue pair in INIT.
    ///
    /// # Errors
    /// The queue pair is in another state. It comes back.
    pub(super) fn connect(
        qp: QueuePair,
        remote: &RoceRemote,
        (port, mtu): (&RocePort, RoceMtu),
        to: AddrPair,
    ) -> Result<Self, Box<QueuePair>> {
        let number = remote.own_qp;
        let from = SocketAddr::new(port.gid, port.port);
        let ends = IcrcEnds { from, to: to.remote };
        let qp = RcQp::new(qp, rc_remote(remote, mtu))?;
        let ecn = remote.dcqcn.is_some();
        Ok(RoceQp { qp, to, ends, mtu, number, ecn, held: None })
    }

    fn class_of(&self, opcode: RcOpcode) -> TrainClass {
        match opcode {
            RcOpcode::CongestionNotification => TrainClass::Cnp,
            opcode if self.ecn && opcode.is_paced() => TrainClass::Ecn,
            _ => TrainClass::Plain,
        }
    }

    /// Replaces the parameters of sending. Returns false if a work request was posted before.
    pub(super) fn set_sending(&mut self, remote: &RoceRemote) -> bool {
        self.qp.set_sending(&rc_remote(remote, self.mtu))
    }

    /// The number by which the peer knows this queue pair, unless it is the engine's.
    pub(super) fn number(&self) -> Option<QpId> {
        self.number
    }

    /// Whether the peer sends to the UDP port of RoCEv2, and not to one that was agreed on.
    pub(super) fn uses_port(&self) -> bool {
        self.to.remote.port() == DEFAULT_PORT
    }

    /// The peer, and the local address.
    pub(super) fn to(&self) -> AddrPair {
        self.to
    }

    pub(super) fn mtu(&self) -> RoceMtu {
        self.mtu
    }

    /// Whether the peer may have sent a packet that came from `from`. Any port may be its source.
    pub(super) fn is_peer(&self, from: SocketAddr) -> bool {
        from.ip() == self.ends.to.ip()
    }

    /// Whether the ICRC of a packet from `from` is right. `place`: its place among those that
    /// arrived with it, which is the likely identification of its IPv4 packet.
    pub(super) fn is_intact(&self, from: SocketAddr, packet: &[u8], place: usize) -> bool {
        let ends = IcrcEnds { from, to: self.ends.from };
        ends.check(packet, place as u16).is_some()
    }

    /// Takes a packet of the peer, and places its payload. `congestion`: whether it is marked.
    pub(super) fn take(
        &mut self,
        now: Time,
        (packet, congestion): (&RcPacket<'_>, bool),
        memory: &Checked<'_>,
    ) -> Admit {
        let RcPacket { header, payload } = packet;
        let arrival = RcArrival { header, len: payload.len() as u32, congestion };
        let admit = self.qp.on_arrival(now, &arrival, memory);
        if let Admit::Take(landing) = &admit {
            if *landing != Landing::Nothing
                && let Err(error) = landing::land(memory, landing, &[payload])
            {
                device::log(self.qp.id(), &error);
                self.qp.end(EndCause::DeviceMemory);
                return admit;
            }
            self.qp.placed(now, memory);
        }
        admit
    }

    /// Fills an empty train with the next packets.
    pub(super) fn fill(&mut self, now: Time, train: &mut Train, regions: &Regions) {
        // The memory of a request belongs to the application once the queue pair has ended.
        let is_ended = !self.qp.state().receives();
        self.held.take_if(|held| is_ended && held.header.opcode.is_request());
        while let Some(mut next) = self.held.take().or_else(|| self.qp.poll_transmit(now)) {
            let (len, class) = (packet_len(&next), self.class_of(next.header.opcode));
            if !train.takes(len, class) {
                self.held = Some(next);
                return;
            }
            match Readable::check(&mut next.gather, (next.pd, next.access), regions) {
                // Messages in device memory are copied before they get here, and responses are not.
                Some(payload) if payload.pieces().any(|piece| cuda::is_device(piece.addr)) => {
                    self.qp.unreadable(&next.header);
                }
                Some(payload) => {
                    train.class = class;
                    train.push(&self.ends, &next.header, &payload, len);
                }
                None => self.qp.unreadable(&next.header),
            }
        }
    }
}

/// The peer's end for the protocol.
fn rc_remote(remote: &RoceRemote, mtu: RoceMtu) -> RcRemote {
    RcRemote {
        qp: remote.qp,
        send_psn: remote.send_psn,
        recv_psn: remote.recv_psn,
        mtu,
        max_rd_atomic: remote.max_rd_atomic.max(1),
        ack_timeout: remote.ack_timeout.min(braid_transport::MAX_TIMER),
        retry_count: remote.retry_count,
        window: remote.window.max(1),
        dcqcn: remote.dcqcn,
    }
}

/// Bytes of a packet with its ICRC.
fn packet_len(packet: &RcTransmit) -> usize {
    let payload: usize = packet.gather.iter().map(|piece| piece.len as usize).sum();
    packet.header.encoded_len() + payload + RcHeader::padding(payload) + ICRC_LEN
}

/// Packets of one length and class for one peer. The last may be shorter.
#[derive(Default)]
pub(super) struct Train {
    pub(super) bytes: Vec<u8>,
    /// Bytes of each packet but the last.
    pub(super) segment_len: usize,
    class: TrainClass,
    count: u32,
    is_ended: bool,
    batch: Option<RoceBatch>,
    /// Bytes and packets of a batch.
    most: (usize, u32),
}

impl Train {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Begins an empty train. `most`: its bytes and packets.
    pub(super) fn begin(&mut self, batch: RoceBatch, most: (usize, u32)) {
        self.bytes.clear();
        (self.count, self.is_ended) = (0, false);
        (self.batch, self.most) = (Some(batch), most);
    }

    /// The destination, with the traffic class of the packets, and whether they are ECN-capable.
    pub(super) fn egress(&self, mut to: AddrPair) -> (AddrPair, bool) {
        if self.class == TrainClass::Cnp {
            to.local.traffic_class = CNP_TRAFFIC_CLASS;
        }
        (to, self.class == TrainClass::Ecn)
    }

    /// Whether another packet of `len` bytes can join.
    fn takes(&self, len: usize, class: TrainClass) -> bool {
        let (bytes, packets) = self.most;
        let has_room = self.count < packets && self.bytes.len() + len <= bytes;
        let is_alike = class == self.class && len <= self.segment_len;
        self.is_empty() || (!self.is_ended && is_alike && has_room)
    }

    /// Appends a packet with its ICRC.
    fn push(&mut self, ends: &IcrcEnds, header: &RcHeader, payload: &Readable<'_>, len: usize) {
        if self.is_empty() {
            self.segment_len = len;
        }
        self.is_ended = len < self.segment_len;
        let (begin, payload_len) = (self.bytes.len(), payload.len());
        let is_numbered = self.batch == Some(RoceBatch::Numbered);
        let id = if is_numbered { self.count as u16 } else { 0 };
        header.encode(payload_len as usize, &mut self.bytes);
        let head = &self.bytes[begin..];
        let crc = IcrcEnds::extend(ends.begin(head, len, id), &head[BTH_LEN..]);
        let crc = payload.copy_continuing(crc, &mut self.bytes);
        let padding = &[0; 3][..RcHeader::padding(payload_len as usize)];
        self.bytes.extend_from_slice(padding);
        self.bytes.extend_from_slice(&IcrcEnds::extend(crc, padding).to_le_bytes());
        debug_assert_eq!(self.bytes.len() - begin, len);
        self.count += 1;
    }
}
