//! Headers of consecutive segments of one message, made one from the other.
//!
//! Such headers differ in PSN, offset and payload CRC, 11 bytes of the 56 that the header's check
//! covers. CRC-32 is affine: two headers of one length have checks whose difference depends on the
//! difference of the headers only. So 11 table look-ups replace the check of 56 bytes.

use zerocopy::IntoBytes;

use crate::DataHeader;
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
        let raw = match self.raw.take().filter(|raw| is_alike(raw, header)) {
            Some(raw) => advance(raw, header),
            None => header.raw().0,
        };
        debug_assert_eq!(raw.as_bytes(), header.raw().0.as_bytes(), "another message");
        zerocopy::transmute_ref!(self.raw.insert(raw))
    }
}

/// Whether a header differs from an encoded one in PSN, offset and payload CRC only.
#[inline]
fn is_alike(raw: &RawData, header: &DataHeader) -> bool {
    raw.len.get() == header.len
        && raw.flags == header.flags()
        && raw.bth.wants_ack() == header.ack_request
}

/// Makes the encoded header of a segment from that of one before.
#[inline]
fn advance(mut raw: RawData, header: &DataHeader) -> RawData {
    let psn = raw.bth.wire_psn() ^ header.psn;
    let difference = remainder(&PSN, psn)
        ^ remainder(&OFFSET, raw.offset.get() ^ header.offset)
        ^ remainder(&PAYLOAD_CRC, raw.payload_crc.get() ^ header.payload_crc);
    raw.bth.psn.set(raw.bth.psn.get() ^ psn);
    raw.offset.set(header.offset);
    raw.payload_crc.set(header.payload_crc);
    raw.header_crc.set(raw.header_crc.get() ^ difference);
    raw
}

/// Remainders of a byte, by its value.
type Remainders = [u32; 256];

/// Remainders of the bytes of a field, for each byte of the field from the first on.
static PSN: [Remainders; 4] = remainders(8);
static OFFSET: [Remainders; 4] = remainders(40);
static PAYLOAD_CRC: [Remainders; 4] = remainders(52);

/// The polynomial of CRC-32, bit-reflected.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// The remainder of a difference `bits` in this field.
#[inline]
fn remainder(field: &[Remainders; 4], bits: u32) -> u32 {
    let [a, b, c, d] = bits.to_be_bytes();
    field[0][usize::from(a)]
        ^ field[1][usize::from(b)]
        ^ field[2][usize::from(c)]
        ^ field[3][usize::from(d)]
}

/// The tables of a field of four bytes at this position of the header.
const fn remainders(position: usize) -> [Remainders; 4] {
    let mut tables = [[0; 256]; 4];
    let mut value = 0;
    while value < 256 {
        let mut remainder = after_byte(value as u32);
        let mut behind = 0;
        while behind < DATA_HEADER_LEN - 4 - position {
            let index = DATA_HEADER_LEN - 4 - 1 - position - behind;
            if index < 4 {
                tables[index][value] = remainder;
            }
            remainder = after_byte(remainder & 0xFF) ^ (remainder >> 8);
            behind += 1;
        }
        value += 1;
    }
    tables
}

/// The remainder after one byte.
const fn after_byte(byte: u32) -> u32 {
    let (mut remainder, mut bit) = (byte, 0);
    while bit < 8 {
        let carry = remainder & 1;
        remainder >>= 1;
        if carry == 1 {
            remainder ^= POLYNOMIAL;
        }
        bit += 1;
    }
    remainder
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
