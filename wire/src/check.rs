//! Integrity checks: CRC-32 (IEEE 802.3), the polynomial of RoCEv2's ICRC.

use std::sync::LazyLock;

use crc32fast::Hasher;

use crate::DecodeError;

/// Bytes of a check at the end of a packet.
pub(crate) const CHECK_LEN: usize = 4;

/// A hasher that nothing has gone into. To copy one is cheaper than to find out anew what this processor can do,
/// which takes half as long as to check a header.
static FRESH: LazyLock<Hasher> = LazyLock::new(Hasher::new);

/// Whether payloads carry a check; agreed at set-up. Headers always carry theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Crc {
    /// Payloads are checked end to end.
    #[default]
    On,
    /// The application or the medium checks payloads.
    Off,
}

/// The check of a payload given in pieces, in order.
pub fn payload_crc<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = FRESH.clone();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

/// The check of a header: CRC-32 over both parts. The second is empty for most packets.
pub(crate) fn header_crc(head: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = FRESH.clone();
    hasher.update(head);
    if !rest.is_empty() {
        hasher.update(rest);
    }
    hasher.finalize()
}

/// Takes off and verifies the check at the end of a packet of at least `min` bytes before it.
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
