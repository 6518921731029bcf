//! Runs: data packets that continue each other, recognised by the bytes of their headers.

use crate::affine::Varying;
use crate::data::RawData;
use crate::{DATA_HEADER_LEN, DataHeader};

/// The longest time between the first stamp of a run and its last, in units of a stamp. Within it
/// the order of stamps is certain.
const MAX_SPAN: u32 = 1 << 30;

/// Consecutive segments of one message, as one receive call returns them (GRO): their PSNs count
/// up, and each begins where the previous one ends.
///
/// All have the same header, except for PSN, offset, length, stamp and CRCs. Only the final segment
/// may request an acknowledgement or be the last of its message. Stamps do not decrease. The
/// lengths may differ, and their sum fits a header.
#[derive(Clone)]
pub struct DataRun<'a> {
    /// The bytes of the first packet. `None`: nothing can follow.
    first: Option<&'a RawData>,
    header: DataHeader,
    segments: u32,
    stamp: u32,
}

/// A segment that may be appended to a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSegment<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// The CRC that the header states for the payload.
    pub payload_crc: u32,
    stamp: u32,
    ack_request: bool,
    last: bool,
}

impl<'a> DataRun<'a> {
    /// Begins a run with a decoded packet. `bytes` are the bytes that it was decoded from.
    #[inline]
    pub fn new(bytes: &'a [u8], header: DataHeader) -> Self {
        let may_continue = header.opcode.has_payload() && header.len > 0;
        let first = RawData::of(bytes).filter(|_| may_continue);
        DataRun { first, header, segments: 1, stamp: header.stamp }
    }

    /// Returns the segment in `bytes` if it continues the run. The header is checked like that of
    /// any packet. `None`: decode the packet by itself.
    #[inline]
    pub fn next(&self, bytes: &'a [u8]) -> Option<RunSegment<'a>> {
        let (first, next) = (self.first?, RawData::of(bytes)?);
        let header = &self.header;
        if header.last || header.ack_request || !next.continues(first) {
            return None;
        }
        let (len, stamp) = (next.len.get(), next.stamp.get());
        let end = header.offset.checked_add(header.len.into())?;
        let next_end = end.checked_add(len.into())?;
        let span = stamp.wrapping_sub(header.stamp);
        let fits = len > 0
            && header.len.checked_add(len).is_some()
            && next_end <= header.message_len
            && next.is_last() == (next_end == header.message_len);
        let is_in_order = next.bth.wire_psn()
            == (header.psn.wrapping_add(self.segments)) & 0xFF_FFFF
            && next.offset.get() == end
            && span <= MAX_SPAN
            && span >= self.stamp.wrapping_sub(header.stamp);
        let crc = first.header_crc.get() ^ Varying::of(first).crc_difference(Varying::of(next));
        if !fits || !is_in_order || next.header_crc.get() != crc {
            return None;
        }
        Some(RunSegment {
            payload: bytes[DATA_HEADER_LEN..].get(..len.into())?,
            payload_crc: next.payload_crc.get(),
            stamp,
            ack_request: next.bth.wants_ack(),
            last: next.is_last(),
        })
    }

    /// Appends the segment that [`DataRun::next`] has returned last.
    #[inline]
    pub fn push(&mut self, segment: &RunSegment<'_>) {
        self.header.len += segment.payload.len() as u16;
        self.header.ack_request = segment.ack_request;
        self.header.last = segment.last;
        self.stamp = segment.stamp;
        self.segments += 1;
    }

    /// Returns the header that one segment with the bytes of all would have. PSN, stamp and payload
    /// CRC are those of the first segment.
    pub fn header(&self) -> &DataHeader {
        &self.header
    }

    /// Returns the number of segments, at least 1.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns the stamp of the final segment.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Opcode, Packet, QpId, Token};

    const MESSAGE: u32 = 1000;

    fn header(psn: u32, offset: u32, len: u16) -> DataHeader {
        DataHeader {
            opcode: Opcode::Write,
            qp: QpId::new(2),
            token: Token(7),
            psn,
            ack_request: false,
            solicited: false,
            last: offset + u32::from(len) == MESSAGE,
            retransmission: false,
            number: 5,
            address: 0x1000,
            rkey: 9,
            message_len: MESSAGE,
            offset,
            len,
            imm: 0,
            stamp: psn.wrapping_mul(10),
            payload_crc: psn,
            operands: None,
        }
    }

    fn packet(header: &DataHeader, padding: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.resize(bytes.len() + usize::from(header.len) + padding, 0xAA);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(DataHeader, &[u8])> {
        match Packet::decode(bytes) {
            Ok(Packet::Data(header, payload)) => Some((header, payload)),
            _ => None,
        }
    }

    #[test]
    fn a_run_has_the_header_of_one_segment_with_all_bytes() {
        let first = header(0xFF_FFFE, 0, 100);
        let bytes = packet(&first, 0);
        let mut run = DataRun::new(&bytes, first);
        let psns = [0xFF_FFFF, 0, 1];
        for (psn, (offset, len)) in psns.into_iter().zip([(100, 100), (200, 50), (250, 750)]) {
            let next = DataHeader { stamp: first.stamp + 7, ..header(psn, offset, len) };
            let bytes = packet(&next, 3);
            let segment = run.next(&bytes).expect("it continues the run");
            assert_eq!((segment.payload.len(), segment.payload_crc), (len.into(), psn));
            run.push(&segment);
        }
        assert_eq!(*run.header(), DataHeader { len: 1000, last: true, ..first });
        assert_eq!((run.segments(), run.stamp()), (4, first.stamp + 7));
        let beyond = packet(&header(2, 0, 100), 0);
        assert!(run.next(&beyond).is_none(), "nothing follows the last segment");
    }

    #[test]
    fn the_lengths_of_a_run_fit_a_header() {
        let long = |psn, offset, len| DataHeader {
            message_len: 1 << 20,
            last: false,
            ..header(psn, offset, len)
        };
        let (first, next) = (long(1, 0, u16::MAX - 10), u32::from(u16::MAX) - 10);
        let bytes = packet(&first, 0);
        let run = DataRun::new(&bytes, first);
        assert!(run.next(&packet(&long(2, next, 10), 0)).is_some());
        assert!(run.next(&packet(&long(2, next, 11), 0)).is_none());
    }

    /// A change of one field of a segment that would continue a run.
    fn changed(field: u8, by: u32, next: DataHeader) -> DataHeader {
        let mut next = next;
        match field {
            0 => next.opcode = Opcode::ReadResponse,
            1 => next.qp = QpId::new(next.qp.get() ^ by),
            2 => next.token.0 ^= by,
            3 => next.psn = (next.psn ^ by) & 0xFF_FFFF,
            4 => next.solicited = true,
            5 => next.last = !next.last,
            6 => next.retransmission = true,
            7 => next.number ^= by,
            8 => next.address ^= u64::from(by) << 20,
            9 => next.rkey ^= by,
            10 => next.message_len ^= by,
            11 => next.offset ^= by,
            12 => next.len ^= by as u16,
            13 => next.imm ^= by,
            14 => next.stamp = next.stamp.wrapping_sub(by),
            _ => next.ack_request = true,
        }
        next
    }

    proptest! {
        /// Compares with a full decode: a packet continues a run if it is valid by itself and its
        /// fields are those of the next segment.
        #[test]
        fn only_the_next_segment_continues_a_run(
            (psn, offset, len) in (0u32..1 << 24, 0u32..400, 1u16..300),
            (next_len, padding) in (0u16..400, 0usize..20),
            (field, by) in (0u8..32, 1u32..64),
            damage in prop::option::weighted(0.2, (0usize..80, 1u8..255)),
            (first_asks, cut) in (any::<bool>(), 0usize..600),
        ) {
            let first = DataHeader { ack_request: first_asks && cut % 4 == 0, ..header(psn, offset, len) };
            let end = offset + u32::from(len);
            let plain = header((psn + 1) & 0xFF_FFFF, end, next_len);
            let plain = DataHeader { stamp: first.stamp.wrapping_add(by % 3), ..plain };
            let mut bytes = packet(&changed(field, by, plain), padding);
            if let Some((at, flip)) = damage
                && let Some(byte) = bytes.get_mut(at)
            {
                *byte ^= flip;
            }
            if cut < bytes.len() && cut % 3 == 0 {
                bytes.truncate(cut);
            }
            let own = packet(&first, 0);
            let mut run = DataRun::new(&own, first);
            let expected = decode(&bytes).filter(|(next, _)| {
                let step = next.stamp.wrapping_sub(first.stamp);
                let same = DataHeader {
                    psn: plain.psn,
                    offset: end,
                    len: next.len,
                    stamp: next.stamp,
                    payload_crc: next.payload_crc,
                    ack_request: next.ack_request,
                    last: next.last,
                    ..first
                };
                *next == same && next.len > 0 && !first.last && !first.ack_request && step <= MAX_SPAN
            });
            let found = run.next(&bytes);
            prop_assert_eq!(
                found.map(|next| (next.payload, next.payload_crc)),
                expected.map(|(next, payload)| (payload, next.payload_crc))
            );
            if let (Some(segment), Some((next, _))) = (found, expected) {
                run.push(&segment);
                let joint = DataHeader {
                    len: first.len + next.len,
                    ack_request: next.ack_request,
                    last: next.last,
                    ..first
                };
                prop_assert_eq!((*run.header(), run.segments(), run.stamp()), (joint, 2, next.stamp));
            }
        }
    }
}
