//! The envelope of a keyed connection's packets.
//!
//! Whatever such a connection sends stands behind this header, protected by an AEAD whose additional data the header is.
//! The tag ends the packet.

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::{DecodeError, Opcode, PART_LEN, QpId, Token, VERSION};

/// Bytes before what is sealed.
pub const SEALED_HEADER_LEN: usize = size_of::<Raw>();
/// Bytes of the tag at the end.
const TAG_LEN: usize = 16;
/// Bytes that the envelope adds to a packet, header and tag.
pub const SEAL_LEN: usize = SEALED_HEADER_LEN + TAG_LEN;
/// Bytes of every part but the last of a packet that goes in parts, each part in an envelope.
pub const SEALED_PART_LEN: usize = PART_LEN - SEAL_LEN;

/// What stands before a sealed packet, in clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedHeader {
    /// The receiving queue pair.
    pub qp: QpId,
    /// Its token. It finds the keys, and saves the receiver the work for packets of those who do not know it.
    pub token: Token,
    /// The number of this transmission: the sender's keys and nonces follow from it, and none comes twice.
    pub number: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    bth: Bth,
    version: u8,
    reserved: [u8; 3],
    token: U32,
    number: U64,
}

impl SealedHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let raw = Raw {
            bth: Bth::new(Opcode::Sealed, self.qp, 0),
            version: VERSION,
            reserved: [0; 3],
            token: U32::new(self.token.0),
            number: U64::new(self.number),
        };
        out.extend_from_slice(raw.as_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() < SEAL_LEN {
            return Err(DecodeError::Short { have: bytes.len(), need: SEAL_LEN });
        }
        let (raw, _) = Raw::ref_from_prefix(bytes).map_err(|_| DecodeError::Length)?;
        let (qp, token) = (raw.bth.qp_id(), Token(raw.token.get()));
        Ok(SealedHeader { qp, token, number: raw.number.get() })
    }
}
