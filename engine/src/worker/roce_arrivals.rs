//! Arrived packets of plain RoCEv2.

use std::net::SocketAddr;

use braid_transport::{Admit, Status};
use braid_wire::{DecodeError, MAD_LEN, RcPacket, UdHeader, UdPacket};

use super::arrivals::Arrivals;
use super::landing;
use super::qps::QpLocation;
use crate::datapath::{Arrived, Received};
use crate::ud_queues::{UdArrival, UdReceive, UdRefusal};

impl Arrivals<'_> {
    /// Takes an arrival at the port of RoCEv2, which has no other packets.
    #[cold]
    pub(crate) fn take_roce(&mut self, arrived: &Arrived<'_>) {
        match arrived {
            Arrived::Packets(received) => {
                for (place, packet) in received.packets().enumerate() {
                    self.roce(received, packet, place);
                }
            }
            _ => self.counters.malformed.add(1),
        }
    }

    /// Takes a packet of plain RoCEv2, one of `received`. `place`: its place among them. Either all
    /// of them carry a congestion mark or none does, because the kernel merges no others.
    #[cold]
    pub(super) fn roce(&mut self, received: &Received<'_>, bytes: &[u8], place: usize) {
        let Received { from, congestion, .. } = *received;
        let packet = match RcPacket::decode(bytes) {
            Ok(packet) => packet,
            Err(DecodeError::Opcode(opcode)) if UdHeader::has_opcode(opcode) => {
                return self.datagram(from, bytes, place);
            }
            Err(_) => return self.counters.malformed.add(1),
        };
        let Some(entry) = self.qps.of_roce_number(packet.header.qp) else {
            return self.counters.unknown_qp.add(1);
        };
        let QpLocation::Roce(roce) = &entry.place else { return self.counters.wrong_token.add(1) };
        let Some(from) = from.filter(|from| roce.is_peer(*from)) else {
            return self.counters.wrong_source.add(1);
        };
        if !roce.is_intact(from, bytes, place) {
            return self.counters.payload_check.add(1);
        }
        if congestion {
            self.counters.marks_received.add(1);
        }
        let Some(roce) = entry.roce_for(&packet.header, self.events) else { return };
        match roce.take(self.now, (&packet, congestion), &self.memory.checked) {
            Admit::Take(_) => {}
            Admit::Duplicate => self.counters.duplicates.add(1),
            Admit::Refuse(_) | Admit::Singly => self.counters.refused.add(1),
        }
    }

    /// Takes a packet of the UD service.
    fn datagram(&mut self, from: Option<SocketAddr>, bytes: &[u8], place: usize) {
        let arrival = match (UdPacket::decode(bytes), from) {
            (Ok(packet), Some(from)) => UdArrival { packet, from, bytes, place },
            _ => return self.counters.malformed.add(1),
        };
        let packet = &arrival.packet;
        if packet.header.qp == UdHeader::GSI {
            return self.management(&arrival);
        }
        let Some(queues) = self.qps.datagrams.get(&packet.header.qp) else {
            return self.counters.unknown_qp.add(1);
        };
        let memory = &self.memory.checked;
        match queues.admit(&arrival, memory.regions, self.events) {
            Ok(UdReceive { wr_id, network_header, landing }) => {
                let landed = landing.and_then(|landing| {
                    let bytes: [&[u8]; 2] = [&network_header, packet.payload];
                    landing::land(memory, &landing, &bytes).map_err(|_| Status::LocalProtection)
                });
                queues.complete(packet, wr_id, landed.err().unwrap_or(Status::Success));
            }
            Err(UdRefusal::Key) => self.counters.wrong_q_key.add(1),
            Err(UdRefusal::Damaged) => self.counters.payload_check.add(1),
            Err(UdRefusal::Malformed) => self.counters.malformed.add(1),
            Err(UdRefusal::NoReceive) => self.counters.refused.add(1),
        }
    }

    /// Takes a management datagram for queue pair 1, if that is open. Its ICRC is checked by
    /// whoever takes it from there.
    fn management(&mut self, arrival: &UdArrival<'_>) {
        match &self.qps.mads {
            Some(mads) if is_management(&arrival.packet) => {
                if !mads.push(arrival.from, arrival.bytes, arrival.place) {
                    self.counters.refused.add(1);
                }
            }
            _ => self.counters.unknown_qp.add(1),
        }
    }
}

/// Whether a packet goes from one queue pair 1 to another.
fn is_management(packet: &UdPacket<'_>) -> bool {
    let UdHeader { qp, q_key, source, .. } = packet.header;
    let ends = (qp, source) == (UdHeader::GSI, UdHeader::GSI);
    ends && q_key == UdHeader::GSI_Q_KEY && packet.payload.len() == MAD_LEN
}
