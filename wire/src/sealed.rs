//! The envelope of the packets of a keyed connection.
//!
//! An AEAD protects the inner packet, with this header as its additional data. The tag follows the
//! ciphertext.

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::{DecodeError, Opcode, PART_LEN, QpId, Token, VERSION};

/// Length of the clear-text header in bytes.
pub const SEALED_HEADER_LEN: usize = size_of::<RawSealed>();
/// Length of the AEAD tag in bytes.
const TAG_LEN: usize = 16;
/// Bytes that the envelope adds to a packet: header and tag.
pub const SEAL_LEN: usize = SEALED_HEADER_LEN + TAG_LEN;
/// Length of every fragment but the last of a sealed packet, in bytes. Each fragment has its own
/// envelope.
pub const SEALED_PART_LEN: usize = PART_LEN - SEAL_LEN;

/// The clear-text header of a sealed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedHeader {
    /// The receiving queue pair.
    pub qp: QpId,
    /// The token of the receiving queue pair. The receiver finds the keys by it and drops packets
    /// with a wrong token before it decrypts them.
    pub token: Token,
    /// The number of this transmission, used once. The sender derives the key epoch and the nonce
    /// from it.
    pub number: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSealed {
    bth: Bth,
    version: u8,
    reserved: [u8; 3],
    token: U32,
    number: U64,
}

impl SealedHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let raw = RawSealed {
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
        let (raw, _) = RawSealed::ref_from_prefix(bytes).map_err(|_| DecodeError::Length)?;
        let (qp, token) = (raw.bth.qp_id(), Token(raw.token.get()));
        Ok(SealedHeader { qp, token, number: raw.number.get() })
    }
}
