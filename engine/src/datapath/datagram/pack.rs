//! Packs segments into batches.

use braid_keys::Session;
use braid_wire::{
    Crc, DataHeader, HeaderTemplate, PART_HEADER_LEN, PART_LEN, Part, SEALED_PART_LEN,
};

use super::batch::{BatchBuilder, Shape};
use super::queue::PacketQueue;
use crate::datapath::SegmentRun;
use crate::datapath::segment_bytes::{encode, is_staged};

/// Adds segments to batches.
pub(super) fn pack(queue: &mut PacketQueue, run: &mut SegmentRun<'_>) {
    let envelope = if run.session.is_some() { Session::OVERHEAD } else { 0 };
    let mut template = HeaderTemplate::default();
    let (mut header, mut followers, mut is_first) = (*run.header, run.followers, true);
    loop {
        let len = header.encoded_len() + usize::from(header.len) + envelope;
        let packet = Shape { to: run.to, via: run.via, len };
        let offset = header.offset as usize;
        let padding = queue.padding(packet, offset..offset + usize::from(header.len));
        let len = len + padding;
        let batch = match std::mem::take(&mut is_first) {
            true => queue.data(Shape { len, ..packet }),
            false => queue.follower(len),
        };
        pack_one(batch, run, &mut header, &mut template, padding);
        if !followers.next(&mut header) {
            return;
        }
    }
}

/// Adds the next segment of a run to a batch, which the packet was begun in.
#[inline]
fn pack_one(
    batch: &mut BatchBuilder,
    run: &mut SegmentRun<'_>,
    header: &mut DataHeader,
    template: &mut HeaderTemplate,
    padding: usize,
) {
    let payload = run.payload.split_to(header.len.into());
    let pad = |out: &mut Vec<u8>| out.resize(out.len() + padding, 0);
    if run.session.is_some() || is_staged(header, payload, run.crc) {
        let (crc, rail) = (run.crc, run.rail);
        let mut write = |out: &mut Vec<u8>| {
            encode(out, header, payload, (crc, template));
            pad(out);
        };
        return batch.stage(|out| match &mut run.session {
            Some(session) => session.seal(rail, out, write),
            None => write(out),
        });
    }
    if run.crc == Crc::On {
        header.payload_crc = payload.crc();
    }
    batch.stage(|out| out.extend_from_slice(template.encode(header)));
    for piece in payload.pieces() {
        // SAFETY: the piece is registered, and `Queue::forget_memory` clears the batch before a
        // region goes.
        unsafe { batch.refer(piece.addr, piece.len as usize) };
    }
    batch.stage(pad);
}

/// Adds segments that are longer than the path carries, each in parts with a serial number of its
/// own. `serial`: the last number that was used. This is rare enough for a buffer of its own.
pub(super) fn pack_in_parts(queue: &mut PacketQueue, run: &mut SegmentRun<'_>, serial: &mut u32) {
    for mut header in run.followers.headers(run.header) {
        let payload = run.payload.split_to(header.len.into());
        let mut whole = Vec::new();
        encode(&mut whole, &mut header, payload, (run.crc, &mut HeaderTemplate::default()));
        *serial = serial.wrapping_add(1);
        pack_parts(queue, run, &header, &whole, *serial);
    }
}

fn pack_parts(
    queue: &mut PacketQueue,
    run: &mut SegmentRun<'_>,
    header: &DataHeader,
    whole: &[u8],
    serial: u32,
) {
    let SegmentRun { to, rail, via, session, .. } = run;
    let (qp, token, psn) = (header.qp, header.token, header.psn);
    let (part_len, envelope) = match session {
        Some(_) => (SEALED_PART_LEN, Session::OVERHEAD),
        None => (PART_LEN, 0),
    };
    let count = whole.len().div_ceil(part_len) as u8;
    for (index, bytes) in (0..).zip(whole.chunks(part_len)) {
        let len = PART_HEADER_LEN + bytes.len() + envelope;
        let batch = queue.data(Shape { to: *to, via: *via, len });
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
