//! Differences between the CRCs of headers of one run.
//!
//! Such headers differ in PSN, offset and payload CRC, 11 bytes of the 56 that the header's CRC
//! covers, and a few of them in flags, length and stamp. CRC-32 is affine: the difference between
//! the CRCs of two headers of one length depends only on the difference of the headers. So 11 table
//! look-ups replace the CRC of 56 bytes.

use crate::data::{DATA_HEADER_LEN, RawData};

/// The fields of a header in which the headers of a run may differ.
#[derive(Clone, Copy)]
pub(crate) struct Varying {
    /// Acknowledge request and PSN.
    psn: u32,
    flags_and_len: u32,
    offset: u32,
    stamp: u32,
    payload_crc: u32,
}

impl Varying {
    #[inline]
    pub(crate) fn of(raw: &RawData) -> Self {
        Varying {
            psn: raw.bth.psn.get(),
            flags_and_len: u32::from(raw.flags) << 16 | u32::from(raw.len.get()),
            offset: raw.offset.get(),
            stamp: raw.stamp.get(),
            payload_crc: raw.payload_crc.get(),
        }
    }

    /// Returns the difference between the CRCs of two headers that are equal but for these fields.
    #[inline]
    pub(crate) fn crc_difference(self, other: Self) -> u32 {
        let mut difference = remainder(&PSN, self.psn ^ other.psn)
            ^ remainder(&OFFSET, self.offset ^ other.offset)
            ^ remainder(&PAYLOAD_CRC, self.payload_crc ^ other.payload_crc);
        if self.flags_and_len != other.flags_and_len {
            difference ^= remainder(&FLAGS_AND_LEN, self.flags_and_len ^ other.flags_and_len);
        }
        if self.stamp != other.stamp {
            difference ^= remainder(&STAMP, self.stamp ^ other.stamp);
        }
        difference
    }
}

/// Remainders of a byte, by its value.
type Remainders = [u32; 256];

/// Remainders of the bytes of a field, for each byte of the field from the first on.
static PSN: [Remainders; 4] = remainders(8);
static FLAGS_AND_LEN: [Remainders; 4] = remainders(12);
static OFFSET: [Remainders; 4] = remainders(40);
static STAMP: [Remainders; 4] = remainders(48);
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
