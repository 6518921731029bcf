//! Packing a segment into a batch.

use braid_wire::{Crc, DataHeader, PART_HEADER_LEN, PART_LEN, Part};

use super::batch::{BatchBuilder, MAX_PIECES, Shape};
use super::queue::Queue;
use crate::datapath::{Readable, Segment};

/// Payloads up to this are copied: cheaper than another slice.
const STAGED: usize = 256;

/// Adds a segment to a batch.
pub(super) fn pack(queue: &mut Queue, segment: &Segment<'_>) {
    let Segment { header, payload, to, via, .. } = segment;
    let len = header.encoded_len() + usize::from(header.len);
    let batch = queue.data(Shape { to: *to, via: *via, len });
    if segment.crc == Crc::On {
        return batch.stage(|out| encode_checked(out, header, payload));
    }
    batch.stage(|out| header.encode(out));
    if usize::from(header.len) <= STAGED || payload.pieces().len() > MAX_PIECES {
        return batch.stage(|out| payload.copy_to(out));
    }
    for piece in payload.pieces() {
        // SAFETY: the piece is registered, and `Queue::forget_memory` clears the batch before a region goes.
        unsafe { batch.refer(piece.addr, piece.len as usize) };
    }
}

/// Adds a segment that is longer than what the path carries, in parts with this serial number. Rare enough for a buffer of
/// its own.
pub(super) fn pack_in_parts(queue: &mut Queue, segment: &Segment<'_>, serial: u32) {
    let Segment { header, payload, to, via, .. } = segment;
    let mut whole = Vec::new();
    if segment.crc == Crc::On {
        encode_checked(&mut whole, header, payload);
    } else {
        header.encode(&mut whole);
        payload.copy_to(&mut whole);
    }
    let (qp, token) = (header.qp, header.token);
    let count = whole.len().div_ceil(PART_LEN) as u8;
    for (index, bytes) in (0..).zip(whole.chunks(PART_LEN)) {
        let len = PART_HEADER_LEN + bytes.len();
        let batch: &mut BatchBuilder = queue.data(Shape { to: *to, via: *via, len });
        batch.stage(|out| {
            Part { qp, token, serial, index, count }.encode(out);
            out.extend_from_slice(bytes);
        });
    }
}

fn encode_checked(out: &mut Vec<u8>, header: &DataHeader, payload: &Readable<'_>) {
    let start = out.len();
    let head = header.encoded_len();
    out.resize(start + head, 0);
    let payload_crc = payload.copy_checked(out);
    DataHeader { payload_crc, ..*header }.encode_at(&mut out[start..start + head]);
}
