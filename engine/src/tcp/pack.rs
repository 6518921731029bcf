//! Packs segments into frames.

use braid_keys::Session;
use braid_wire::{Crc, HeaderTemplate};

use super::outgoing::Outgoing;
use crate::datapath::SegmentRun;
use crate::datapath::segment_bytes::{encode, is_staged, plaintext};

/// Appends segments, each as a frame. Returns their number.
pub(super) fn pack(out: &mut Outgoing, run: &mut SegmentRun<'_>) -> u64 {
    let envelope = if run.session.is_some() { Session::OVERHEAD } else { 0 };
    let mut template = HeaderTemplate::default();
    let (mut header, mut followers, mut count) = (*run.header, run.followers, 0);
    loop {
        let payload = run.payload.split_to(header.len.into());
        let len = header.encoded_len() + usize::from(header.len) + envelope;
        out.begin(len);
        if let Some(session) = &mut run.session
            && session.encrypts()
            && let Some(plaintext) = plaintext(&header, payload, run.crc)
        {
            let rail = run.rail;
            out.stage_whole(len, |block| {
                session.begin(block);
                block.extend_from_slice(template.encode(&header));
                move |packet| session.seal_from(rail, packet, plaintext)
            });
        } else if run.session.is_some() || is_staged(&header, payload, run.crc) {
            let (crc, rail) = (run.crc, run.rail);
            let header = &mut header;
            let mut write = |out: &mut Vec<u8>| encode(out, header, payload, (crc, &mut template));
            out.stage(len, |out| match &mut run.session {
                Some(session) => session.seal(rail, out, write),
                None => write(out),
            });
        } else {
            if run.crc == Crc::On {
                header.payload_crc = payload.crc();
            }
            let bytes = template.encode(&header);
            out.stage(bytes.len(), |out| out.extend_from_slice(bytes));
            for piece in payload.pieces() {
                // SAFETY: the piece is registered, and `TcpDatapath::forget_memory` copies what
                // waits before a region goes.
                unsafe { out.refer(piece.addr, piece.len as usize) };
            }
        }
        count += 1;
        if !followers.next(&mut header) {
            return count;
        }
    }
}
