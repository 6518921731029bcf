//! Integrity checks: CRC-32 (IEEE 802.3), the polynomial of RoCEv2's ICRC.

use std::sync::LazyLock;

use crc32fast::Hasher;

use crate::DecodeError;

/// Length of the CRC at the end of a packet, in bytes.
pub(crate) const CHECK_LEN: usize = 4;

/// An unused hasher. A copy of it is cheaper than `Hasher::new`, which detects the processor's
/// features and takes half as long as the check of a header.
static FRESH: LazyLock<Hasher> = LazyLock::new(Hasher::new);

/// Whether payloads carry a CRC, as agreed at set-up. Headers always carry one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Crc {
    /// Payloads carry an end-to-end CRC.
    #[default]
    On,
    /// Payloads carry no CRC. The application or the medium checks them.
    Off,
}

/// Returns the CRC of a payload, given as consecutive pieces.
pub fn payload_crc<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = FRESH.clone();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

/// Returns the CRC of a header in two parts. The second part is empty for most packets.
pub(crate) fn header_crc(head: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = FRESH.clone();
    hasher.update(head);
    if !rest.is_empty() {
        hasher.update(rest);
    }
    hasher.finalize()
}

/// Verifies and removes the CRC at the end of a packet, which must follow at least `min` bytes.
pub(crate) fn strip_check(bytes: &[u8], min: usize) -> Result<&[u8], DecodeError> {
    let short = DecodeError::Short { have: bytes.len(), need: min + CHECK_LEN };
    let (body, check) = bytes.split_last_chunk::<CHECK_LEN>().ok_or(short)?;
    if body.len() < min {
        return Err(short);
    }
    if header_crc(body, &[]) != u32::from_be_bytes(*check) {
        return Err(DecodeError::HeaderCheck);
    }
    Ok(body)
}
