//! Packets as endpoints and networks know them.

use braid_transport::{Arrival, Followers, Landing, SgList, Sge, Transmit, TransmitBody};
use braid_wire::{
    Ack, Bitmap, DataHeader, Marks, Opcode, Packet, PathId, QpId, Stream, Time, Token,
};

/// Returns the bytes of a packet, which decode to the same packet.
pub(crate) fn encode(body: &TransmitBody, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let packet = match body {
        TransmitBody::Segment { header, .. } => {
            header.encode(&mut bytes);
            bytes.extend_from_slice(payload);
            Packet::Data(*header, payload)
        }
        TransmitBody::Ack(ack) => {
            ack.encode(&mut bytes);
            Packet::Ack(ack.clone())
        }
        TransmitBody::Credit(credit) => {
            credit.encode(&mut bytes);
            Packet::Credit(*credit)
        }
        TransmitBody::Control(control) => {
            control.encode(&mut bytes);
            Packet::Control(*control)
        }
        TransmitBody::Probe(probe) => {
            probe.encode(&mut bytes);
            Packet::Probe(*probe)
        }
    };
    assert_eq!(Packet::decode(&bytes), Ok(packet));
    bytes
}

/// Returns the packets that a description covers, one description for each.
pub(crate) fn split(transmit: Transmit) -> Vec<Transmit> {
    let TransmitBody::Segment { header, followers, gather, .. } = &transmit.body else {
        return vec![transmit];
    };
    let (mut rest, mut packets) = (gather.clone(), Vec::new());
    for header in followers.headers(header) {
        let mut packet = transmit.clone();
        if let TransmitBody::Segment { header: own, followers, gather, batch_start, .. } =
            &mut packet.body
        {
            (*own, *followers) = (header, Followers::default());
            *gather = split_off(&mut rest, header.len.into());
            *batch_start &= packets.is_empty();
        }
        packets.push(packet);
    }
    assert!(rest.is_empty(), "the segments do not carry the whole payload");
    packets
}

/// Removes the first `len` bytes from a list.
fn split_off(list: &mut SgList, mut len: u32) -> SgList {
    let (mut first, mut rest) = (SgList::new(), SgList::new());
    for &piece in &*list {
        let taken = piece.len.min(len);
        len -= taken;
        if taken > 0 {
            first.push(Sge { len: taken, ..piece });
        }
        if taken < piece.len {
            let addr = piece.addr + u64::from(taken);
            rest.push(Sge { addr, len: piece.len - taken, ..piece });
        }
    }
    *list = rest;
    first
}

/// Returns the queue pair that a packet is for.
pub(crate) fn peer_of(body: &TransmitBody) -> QpId {
    match body {
        TransmitBody::Segment { header, .. } => header.qp,
        TransmitBody::Ack(ack) => ack.qp,
        TransmitBody::Credit(credit) => credit.qp,
        TransmitBody::Control(control) => control.qp,
        TransmitBody::Probe(probe) => probe.qp,
    }
}

/// A segment that came by a path, unmarked.
pub(crate) fn arrival(header: &DataHeader, path: PathId) -> Arrival<'_> {
    Arrival {
        header,
        segments: 1,
        stamp: header.stamp,
        path,
        congestion: false,
        may_be_replied_to: false,
    }
}

/// Puts a payload where the core wants it, piece by piece.
pub(crate) fn land(landing: &Landing, payload: &[u8], mut place: impl FnMut(&Sge, &[u8])) {
    match landing {
        Landing::Payload(pieces) => {
            let mut rest = payload;
            for piece in pieces {
                let part = rest.split_off(..piece.len as usize).expect("pieces fit the payload");
                place(piece, part);
            }
            assert!(rest.is_empty(), "the pieces do not take the whole payload");
        }
        Landing::Value(piece, value) => {
            assert_eq!(piece.len, 8);
            place(piece, &value.to_ne_bytes());
        }
        Landing::Nothing => assert!(payload.is_empty(), "a payload is thrown away"),
    }
}

/// The header of a message without payload that leaves now.
pub(crate) fn header(
    now: Time,
    opcode: Opcode,
    (qp, token): (QpId, Token),
    psn: u32,
) -> DataHeader {
    DataHeader {
        opcode,
        qp,
        token,
        psn: psn & 0xFF_FFFF,
        ack_request: false,
        solicited: false,
        last: true,
        retransmission: false,
        number: 0,
        address: 0,
        rkey: 0,
        message_len: 0,
        offset: 0,
        len: 0,
        imm: 0,
        stamp: now.stamp(),
        payload_crc: 0,
        operands: None,
    }
}

/// An acknowledgement of everything before a PSN.
pub(crate) fn ack((qp, token): (QpId, Token), stream: Stream, cumulative: u32, stamp: u32) -> Ack {
    Ack {
        qp,
        token,
        stream,
        cumulative: cumulative & 0xFF_FFFF,
        highest: cumulative.wrapping_sub(1) & 0xFF_FFFF,
        nak: None,
        rnr_delay_us: 0,
        path: PathId::default(),
        stamp,
        delay_ns: 0,
        received: 0,
        duplicates: 0,
        bitmap: Bitmap::default(),
        marks: Marks::default(),
    }
}
