//! Arrived packets of plain RoCEv2.

use std::net::SocketAddr;

use braid_transport::Admit;
use braid_wire::RcPacket;

use super::arrivals::Arrivals;
use super::qps::QpLocation;
use crate::datapath::Arrived;

impl Arrivals<'_> {
    /// Takes an arrival at the port of RoCEv2, which has no other packets.
    #[cold]
    pub(crate) fn take_roce(&mut self, arrived: &Arrived<'_>) {
        match arrived {
            Arrived::Packets(received) => {
                for (place, packet) in received.packets().enumerate() {
                    self.roce(received.from, packet, place);
                }
            }
            _ => self.counters.malformed.add(1),
        }
    }

    /// Takes a packet of plain RoCEv2. `place`: its place among those that arrived with it.
    #[cold]
    pub(super) fn roce(&mut self, from: Option<SocketAddr>, bytes: &[u8], place: usize) {
        let Ok(packet) = RcPacket::decode(bytes) else { return self.counters.malformed.add(1) };
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
        let Some(roce) = entry.roce_for(&packet.header, self.events) else { return };
        match roce.take(self.now, &packet, &self.memory.checked) {
            Admit::Take(_) => {}
            Admit::Duplicate => self.counters.duplicates.add(1),
            Admit::Refuse(_) | Admit::Singly => self.counters.refused.add(1),
        }
    }
}
