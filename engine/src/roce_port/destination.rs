//! The destination that a datagram names.

use braid_wire::{CmBody, CmMad, CmReject, RcOpcode, UdHeader, UdPacket};

use super::claim::Claim;

/// The process that a datagram is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    /// The one that has claimed this.
    Claimed(Claim),
    /// The one that has claimed the service, or else one that can refuse the request.
    Request(Claim),
    /// All that have queue pair 1: the sender does not know the connection's number.
    All,
    /// The one that reads the port. The datagram does not belong to RoCEv2, or is malformed.
    Reader,
}

impl Destination {
    pub(super) fn of(datagram: &[u8]) -> Self {
        let Some([opcode, _, _, _, _, high, middle, low, ..]) = datagram.first_chunk::<12>() else {
            return Destination::Reader;
        };
        let is_ud = UdHeader::has_opcode(*opcode);
        if !is_ud && RcOpcode::from_byte(*opcode).is_none() {
            return Destination::Reader;
        }
        let number = u32::from_be_bytes([0, *high, *middle, *low]);
        if is_ud && number == UdHeader::GSI.get() {
            return of_management(datagram);
        }
        Destination::Claimed(Claim::Qp(number))
    }
}

fn of_management(datagram: &[u8]) -> Destination {
    let mad = UdPacket::decode(datagram).ok().and_then(|packet| CmMad::decode(packet.payload).ok());
    let Some(CmMad { body, .. }) = mad else { return Destination::Reader };
    let of_connection = |number: u32| Destination::Claimed(Claim::Tag((number >> 24) as u8));
    match body {
        CmBody::Request(request) => Destination::Request(Claim::Service(request.service)),
        CmBody::Reject(CmReject { remote_id: 0, .. }) => Destination::All,
        CmBody::Reject(reject) => of_connection(reject.remote_id),
        CmBody::Wait(wait) => of_connection(wait.remote_id),
        CmBody::Reply(reply) => of_connection(reply.remote_id),
        CmBody::Ready(end) | CmBody::Disconnected(end) => of_connection(end.remote_id),
        CmBody::Disconnect(end) => of_connection(end.remote_id),
        CmBody::Lookup(lookup) => Destination::Request(Claim::Service(lookup.service)),
        CmBody::LookupAnswer(answer) => of_connection(answer.request_id),
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{
        CmAck, CmDisconnect, CmPrivate, CmRejectReason, CmRejected, QpId, RcHeader, RcPosition,
    };

    use super::*;

    fn management(body: CmBody) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mad = CmMad { transaction: 1, body }.encode();
        UdHeader::management(7).encode(&mad, &mut bytes);
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    #[test]
    fn queue_pair_number_leads_to_its_process() {
        let opcode = RcOpcode::send(RcPosition::of(true, true), false);
        let mut bytes = Vec::new();
        RcHeader::new(opcode, QpId::new(0x12_3456), 9).encode(0, &mut bytes);
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(Destination::of(&bytes), Destination::Claimed(Claim::Qp(0x12_3456)));
        assert_eq!(Destination::of(&bytes[..11]), Destination::Reader);
        bytes[0] = 0xFF;
        assert_eq!(Destination::of(&bytes), Destination::Reader, "no opcode of RoCEv2");
        assert_eq!(Destination::of(&[]), Destination::Reader);
    }

    #[test]
    fn connection_number_leads_to_its_process() {
        let remote_id = 0xAB00_0001;
        let ends = CmPrivate { local_id: 5, remote_id };
        let (message, service_timeout) = (CmRejected::Request, 0);
        let reject = CmReject {
            local_id: 5,
            remote_id,
            message,
            reason: CmRejectReason::TIMEOUT,
            ca_guid: None,
            private_data: [0; CmReject::PRIVATE],
        };
        for body in [
            CmBody::Ready(ends),
            CmBody::Disconnected(ends),
            CmBody::Disconnect(CmDisconnect { local_id: 5, remote_id, remote_qp: QpId::new(3) }),
            CmBody::Wait(CmAck { local_id: 5, remote_id, message, service_timeout }),
            CmBody::Reject(reject),
        ] {
            let found = Destination::of(&management(body));
            assert_eq!(found, Destination::Claimed(Claim::Tag(0xAB)), "{body:?}");
        }
        let nameless = CmBody::Reject(CmReject { remote_id: 0, ..reject });
        assert_eq!(Destination::of(&management(nameless)), Destination::All);
        let mut malformed = management(CmBody::Ready(ends));
        malformed[20] ^= 0xFF; // the version of MADs
        assert_eq!(Destination::of(&malformed), Destination::Reader);
    }
}
