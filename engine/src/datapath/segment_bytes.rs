//! The bytes of a data packet: the header and the payload, which is copied or sent in place.

use braid_wire::{Crc, DATA_HEADER_LEN, DataHeader, HeaderTemplate, Opcode};

use super::segment_run::Readable;

/// Payloads up to this size are copied, which costs less than another slice.
const STAGED: usize = 2048;
/// The largest number of pieces of a payload that is not copied.
pub(super) const MAX_PIECES: usize = 8;

/// Whether a payload is copied. Otherwise the system reads it from the memory of the
/// application.
///
/// If that memory changes after the CRC was computed, the receiver drops the segment. The owner of
/// memory that is sent may not change it before the completion, so that is an error of the
/// application. Its retransmission is copied, so that it is delivered nevertheless. But the owner
/// does not know of READs of its memory, so their responses are always copied.
#[inline]
pub(crate) fn is_staged(header: &DataHeader, payload: Readable<'_>, crc: Crc) -> bool {
    let is_short = usize::from(header.len) <= STAGED;
    let may_change = header.retransmission || header.opcode == Opcode::ReadResponse;
    is_short || (crc == Crc::On && may_change) || payload.pieces().count() > MAX_PIECES
}

/// Returns a payload that can be encrypted from where it is. It is long and in one piece, and its
/// owner may not change it before the completion. That excludes responses to READs.
#[inline]
pub(crate) fn plaintext<'a>(
    header: &DataHeader,
    payload: Readable<'a>,
    crc: Crc,
) -> Option<&'a [u8]> {
    let is_short = usize::from(header.len) <= STAGED;
    if is_short || crc == Crc::On || header.opcode == Opcode::ReadResponse {
        return None;
    }
    let mut pieces = payload.pieces();
    let piece = pieces.next().filter(|piece| piece.len == payload.len())?;
    // SAFETY: the piece has been checked for reading against a snapshot that is held for `'a`, and
    // belongs to a WRITE or SEND that is not complete.
    Some(unsafe { crate::memory::plaintext(piece) })
}

/// Appends the bytes of a data packet, with the CRC of its payload in the header.
#[inline]
pub(crate) fn encode(
    out: &mut Vec<u8>,
    header: &mut DataHeader,
    payload: Readable<'_>,
    (crc, template): (Crc, &mut HeaderTemplate),
) {
    if header.operands.is_some() {
        return header.encode(out); // an atomic has no payload
    }
    let start = out.len();
    let room = start..start + DATA_HEADER_LEN;
    out.resize(room.end, 0);
    match crc {
        Crc::On => header.payload_crc = payload.copy_checked(out),
        Crc::Off => payload.copy_to(out),
    }
    out[room].copy_from_slice(template.encode(header));
}
