//! Integrity checks: CRC-32 (IEEE 802.3), the polynomial of RoCEv2's ICRC.

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
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

/// The check of a header: CRC-32 over both parts. The second is empty for most packets.
pub(crate) fn header_crc(head: &[u8], rest: &[u8]) -> u32 {
    let crc = crc32fast::hash(head);
    if rest.is_empty() {
        return crc;
    }
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(rest);
    hasher.finalize()
}
