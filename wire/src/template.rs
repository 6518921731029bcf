//! Headers of consecutive segments of one message, each made from the one before.

use zerocopy::IntoBytes;

use crate::DataHeader;
use crate::affine::Varying;
use crate::data::{DATA_HEADER_LEN, RawData};

/// Encodes the headers of consecutive segments of one message and transmission, which have no
/// operands. Apart from the fields `psn`, `offset`, `len`, `last`, `ack_request` and `payload_crc`,
/// the headers are equal.
#[derive(Clone, Default, Debug)]
pub struct HeaderTemplate {
    /// The header that was encoded last.
    raw: Option<RawData>,
}

impl HeaderTemplate {
    /// Returns the encoded header of the next segment, as [`DataHeader::encode`] does.
    #[inline]
    pub fn encode(&mut self, header: &DataHeader) -> &[u8; DATA_HEADER_LEN] {
        debug_assert_eq!(header.operands, None, "an atomic has one segment");
        let raw = self.raw.get_or_insert_with(|| header.raw().0);
        advance(raw, header);
        debug_assert_eq!(raw.as_bytes(), header.raw().0.as_bytes(), "another message");
        zerocopy::transmute_ref!(raw)
    }
}

/// Makes the encoded header of a segment from that of one before.
#[inline]
fn advance(raw: &mut RawData, header: &DataHeader) {
    let before = Varying::of(raw);
    raw.bth.set_psn(header.psn, header.ack_request);
    raw.flags = header.flags();
    raw.len.set(header.len);
    raw.offset.set(header.offset);
    raw.payload_crc.set(header.payload_crc);
    let difference = before.crc_difference(Varying::of(raw));
    raw.header_crc.set(raw.header_crc.get() ^ difference);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opcode, QpId, Token};

    fn header(psn: u32, offset: u32, payload_crc: u32) -> DataHeader {
        DataHeader {
            opcode: Opcode::WriteImm,
            qp: QpId::new(0x1234),
            token: Token(0xDEAD_BEEF),
            psn,
            ack_request: false,
            solicited: true,
            last: false,
            retransmission: false,
            number: 7,
            address: 0x1234_5678_9ABC_DEF0,
            rkey: 0xFFEE_0011,
            message_len: 1 << 30,
            offset,
            len: 1400,
            imm: 0xCAFE,
            stamp: 99,
            payload_crc,
            operands: None,
        }
    }

    fn encoded(header: &DataHeader) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes
    }

    #[test]
    fn every_difference_of_one_bit_is_checked_as_the_whole_header_is() {
        let first = header(0xFF_FFFE, 0xFFFF_FF00, 0x8000_0001);
        for bit in 0..32 {
            for next in [
                DataHeader { psn: (first.psn ^ 1 << bit) & 0xFF_FFFF, ..first },
                DataHeader { offset: first.offset ^ 1 << bit, ..first },
                DataHeader { payload_crc: first.payload_crc ^ 1 << bit, ..first },
            ] {
                let mut template = HeaderTemplate::default();
                template.encode(&first);
                assert_eq!(template.encode(&next)[..], encoded(&next), "{next:?}");
                assert_eq!(template.encode(&first)[..], encoded(&first), "after {next:?}");
            }
        }
    }

    #[test]
    fn segments_to_the_end_of_a_message_are_encoded_as_one_by_one() {
        let first = header(0xFF_FFF0, 0, 1);
        let mut template = HeaderTemplate::default();
        for step in 0..40_u32 {
            let is_last = step == 39;
            let next = DataHeader {
                psn: (first.psn + step) & 0xFF_FFFF,
                offset: step * 1400,
                payload_crc: step.wrapping_mul(0x9E37_79B9),
                len: if is_last { 17 } else { 1400 },
                last: is_last,
                ack_request: step == 20 || is_last,
                ..first
            };
            assert_eq!(template.encode(&next)[..], encoded(&next), "{step}");
        }
    }
}
