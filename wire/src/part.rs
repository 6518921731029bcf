//! Fragments of a data packet that has become longer than the path MTU.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::header_crc;
use crate::{BASE_DATAGRAM, DecodeError, Opcode, QpId, Token, VERSION};

/// Length of a fragment's header in bytes.
pub const PART_HEADER_LEN: usize = size_of::<RawPart>();
/// Length of every fragment but the last, in bytes. Every path carries fragments of this length.
pub const PART_LEN: usize = BASE_DATAGRAM - PART_HEADER_LEN;

/// The header of a fragment. Bytes of the packet follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The receiving queue pair.
    pub qp: QpId,
    /// The token of the receiving queue pair.
    pub token: Token,
    /// The PSN of the packet, 24 bits.
    pub psn: u32,
    /// Serial number of the transmission, which all its fragments share.
    pub serial: u32,
    /// Index of the fragment, from 0.
    pub index: u8,
    /// Number of fragments.
    pub count: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPart {
    bth: Bth,
    version: u8,
    index: u8,
    count: u8,
    reserved: u8,
    token: U32,
    serial: U32,
    check: U32,
}

const CHECKED: usize = PART_HEADER_LEN - size_of::<U32>();

impl Part {
    /// Appends the header, including its CRC.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut raw = RawPart {
            bth: Bth::new(Opcode::Part, self.qp, self.psn),
            version: VERSION,
            index: self.index,
            count: self.count,
            reserved: 0,
            token: U32::new(self.token.0),
            serial: U32::new(self.serial),
            check: U32::new(0),
        };
        raw.check = U32::new(header_crc(&raw.as_bytes()[..CHECKED], &[]));
        out.extend_from_slice(raw.as_bytes());
    }

    /// Decodes a fragment into its header and its bytes of the packet.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let short = DecodeError::Short { have: bytes.len(), need: PART_HEADER_LEN };
        let (raw, body) = RawPart::ref_from_prefix(bytes).map_err(|_| short)?;
        if header_crc(&bytes[..CHECKED], &[]) != raw.check.get() {
            return Err(DecodeError::HeaderCheck);
        }
        let is_inside = raw.index < raw.count;
        if !is_inside || !(1..=PART_LEN).contains(&body.len()) {
            return Err(DecodeError::Length);
        }
        let (qp, token, serial) = (raw.bth.qp_id(), Token(raw.token.get()), raw.serial.get());
        let psn = raw.bth.wire_psn();
        Ok((Part { qp, token, psn, serial, index: raw.index, count: raw.count }, body))
    }
}
