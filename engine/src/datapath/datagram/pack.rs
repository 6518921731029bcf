//! Packs a segment into a batch.

use braid_keys::Session;
use braid_wire::{Crc, DataHeader, PART_HEADER_LEN, PART_LEN, Part, SEALED_PART_LEN};

use super::batch::{BatchBuilder, MAX_PIECES, Shape};
use super::queue::PacketQueue;
use crate::datapath::{Readable, Segment};

/// Payloads up to this size are copied, which costs less than another slice.
const STAGED: usize = 256;

/// Adds a segment to a batch.
pub(super) fn pack(queue: &mut PacketQueue, segment: &mut Segment<'_>) {
    let Segment { header, payload, to, rail, via, crc, session, .. } = segment;
    let envelope = if session.is_some() { Session::OVERHEAD } else { 0 };
    let len = header.encoded_len() + usize::from(header.len) + envelope;
    let offset = header.offset as usize;
    let piece = offset..offset + usize::from(header.len);
    let padding = queue.padding(Shape { to: *to, via: *via, len }, piece);
    let batch = queue.data(Shape { to: *to, via: *via, len: len + padding });
    let pad = |out: &mut Vec<u8>| out.resize(out.len() + padding, 0);
    let write = |out: &mut Vec<u8>| {
        encode(out, header, payload, *crc);
        pad(out);
    };
    if let Some(session) = session {
        return batch.stage(|out| session.seal(*rail, out, write));
    }
    let is_staged = usize::from(header.len) <= STAGED || payload.pieces().len() > MAX_PIECES;
    if *crc == Crc::On || is_staged {
        return batch.stage(write);
    }
    batch.stage(|out| header.encode(out));
    for piece in payload.pieces() {
        // SAFETY: the piece is registered, and `Queue::forget_memory` clears the batch before a
        // region goes.
        unsafe { batch.refer(piece.addr, piece.len as usize) };
    }
    batch.stage(pad);
}

/// Adds a segment that is longer than the path carries, in parts with this serial number. This is
/// rare enough for a buffer of its own.
pub(super) fn pack_in_parts(queue: &mut PacketQueue, segment: &mut Segment<'_>, serial: u32) {
    let Segment { header, payload, to, rail, via, crc, session, .. } = segment;
    let mut whole = Vec::new();
    encode(&mut whole, header, payload, *crc);
    let (qp, token, psn) = (header.qp, header.token, header.psn);
    let (part_len, envelope) = match session {
        Some(_) => (SEALED_PART_LEN, Session::OVERHEAD),
        None => (PART_LEN, 0),
    };
    let count = whole.len().div_ceil(part_len) as u8;
    for (index, bytes) in (0..).zip(whole.chunks(part_len)) {
        let len = PART_HEADER_LEN + bytes.len() + envelope;
        let batch: &mut BatchBuilder = queue.data(Shape { to: *to, via: *via, len });
        let write = |out: &mut Vec<u8>| {
            Part { qp, token, psn, serial, index, count }.encode(out);
            out.extend_from_slice(bytes);
        };
        batch.stage(|out| match session {
            Some(session) => session.seal(*rail, out, write),
            None => write(out),
        });
    }
}

fn encode(out: &mut Vec<u8>, header: &DataHeader, payload: &Readable<'_>, crc: Crc) {
    if crc == Crc::On {
        return encode_checked(out, header, payload);
    }
    header.encode(out);
    payload.copy_to(out);
}

fn encode_checked(out: &mut Vec<u8>, header: &DataHeader, payload: &Readable<'_>) {
    let start = out.len();
    let head = header.encoded_len();
    out.resize(start + head, 0);
    let payload_crc = payload.copy_checked(out);
    DataHeader { payload_crc, ..*header }.encode_at(&mut out[start..start + head]);
}
