//! Batches: as many packets as possible for one system call.
//!
//! Headers and short payloads are copied into the batch's staging buffer. The link sends longer
//! payloads directly from application memory.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use braid_transport::AddrPair;

use crate::datapath::segment_bytes::MAX_PIECES;
use crate::link::{DatagramBatch, Link, LinkCaps, SendResult, Slice, Via};

/// The largest number of slices in a batch: the limit of `sendmsg` (`UIO_MAXIOV`) without the
/// slices of one packet.
const MAX_SLICES: usize = 1024 - 2 * MAX_PIECES;

/// A packet is padded if little is missing to the length of the others: at most one part in
/// `PADDED_PACKET` of that, or one part in `PADDED_MESSAGE` of its message. Others can then follow
/// it, and the padding costs less than a system call.
///
/// Segments of a message have one length, a multiple of 8. So up to 8 bytes for each of them are
/// missing in the last: less than one part in `PADDED_MESSAGE` if they have 1 KiB or more.
const PADDED_PACKET: usize = 16;
const PADDED_MESSAGE: usize = 128;

/// The destination of a packet and its length on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) to: AddrPair,
    pub(super) via: Via,
    pub(super) len: usize,
}

/// Packets of one size for one destination on one path. The last may be shorter.
///
/// Invariants: `staging` never exceeds its initial capacity, so pointers into it stay valid. Every
/// entry of `slices` lies in `staging` or in registered memory and stays readable until the batch
/// is sent or cleared.
pub(super) struct BatchBuilder {
    to: AddrPair,
    via: Via,
    segment_len: usize,
    segments: usize,
    bytes: usize,
    /// Whether a shorter packet has ended the batch.
    ended: bool,
    staging: Vec<u8>,
    slices: Vec<Slice<'static>>,
    /// Whether slices point into registered memory.
    refers: bool,
    /// Whether the batch leaves ECN-capable: it contains segments of messages.
    ecn: bool,
}

// SAFETY: the pointers in `slices` are to memory that any thread may read: the staging buffer,
// which moves along, and registered memory, which deregistration protects (`Queue::forget_memory`).
unsafe impl Send for BatchBuilder {}

impl BatchBuilder {
    pub(super) fn new(caps: LinkCaps) -> Self {
        BatchBuilder {
            to: SocketAddr::from(([0, 0, 0, 0], 0)).into(),
            via: Via::Port,
            segment_len: 0,
            segments: 0,
            bytes: 0,
            ended: false,
            staging: Vec::with_capacity(caps.batch_bytes),
            slices: Vec::with_capacity(64),
            refers: false,
            ecn: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Whether the batch depends on registered memory.
    pub(super) fn refers(&self) -> bool {
        self.refers
    }

    /// The path of the batch. `None`: the batch is empty or takes no path.
    pub(super) fn path(&self) -> Option<Via> {
        (!self.is_empty() && self.via != Via::Port).then_some(self.via)
    }

    /// Bytes of each packet but the last. `None`: the batch is empty.
    pub(super) fn segment_len(&self) -> Option<usize> {
        (!self.is_empty()).then_some(self.segment_len)
    }

    /// Makes the batch ECN-capable, because it contains segments of messages.
    pub(super) fn use_ecn(&mut self) {
        self.ecn = true;
    }

    pub(super) fn segments(&self) -> usize {
        self.segments
    }

    /// Whether a packet can join.
    pub(super) fn takes(&self, packet: Shape, caps: LinkCaps) -> bool {
        let is_alike = || packet.to == self.to && packet.via == self.via;
        self.is_empty() || (self.has_room(packet.len, caps) && is_alike())
    }

    /// Whether a packet of `len` bytes can join if it has the destination of the others.
    #[inline]
    pub(super) fn has_room(&self, len: usize, caps: LinkCaps) -> bool {
        !self.ended
            && len <= self.segment_len
            && self.segments < caps.batch_segments
            && self.bytes + len <= caps.batch_bytes
            && self.slices.len() <= MAX_SLICES
    }

    /// A packet of `len` bytes with the destination of the others.
    pub(super) fn another(&self, len: usize) -> Shape {
        Shape { to: self.to, via: self.via, len }
    }

    /// The padding with which a segment does not end the batch that it joins. If the segment begins
    /// the next batch, this is the padding with which those behind it can join it there. `piece`:
    /// the bytes of its message that it carries.
    #[inline]
    pub(super) fn padding(&self, packet: Shape, piece: Range<usize>, caps: LinkCaps) -> usize {
        let short = self.segment_len.saturating_sub(packet.len);
        if short == 0 || self.is_empty() { 0 } else { self.worthwhile(short, packet, piece, caps) }
    }

    /// Returns `short`, by which the packet is shorter than the others, if padding pays.
    fn worthwhile(
        &self,
        short: usize,
        packet: Shape,
        piece: Range<usize>,
        caps: LinkCaps,
    ) -> usize {
        if packet.to != self.to {
            return 0;
        }
        let of_message = piece.end / PADDED_MESSAGE;
        let pays = if self.takes(packet, caps) {
            let fits = self.bytes + self.segment_len <= caps.batch_bytes;
            fits && short <= of_message.max(self.segment_len / PADDED_PACKET)
        } else {
            // Only the last segment of the message that has filled this batch.
            let is_cut_alike = piece.start.is_multiple_of(piece.len() + short);
            piece.start > 0 && is_cut_alike && short <= of_message
        };
        if pays { short } else { 0 }
    }

    /// Takes over the only packet of another batch if it can join this one.
    pub(super) fn join(&mut self, other: &mut BatchBuilder, caps: LinkCaps) -> bool {
        if self.is_empty() || other.segments != 1 || other.refers {
            return false;
        }
        let packet = Shape { to: other.to, via: other.via, len: other.bytes };
        if !self.takes(packet, caps) {
            return false;
        }
        self.begin(packet);
        self.stage(|out| out.extend_from_slice(&other.staging));
        other.clear();
        true
    }

    /// Takes packets of the shape `packet`; the last may be shorter. The batch is empty before, and
    /// `packets` afterwards.
    pub(super) fn adopt(&mut self, packet: Shape, packets: &mut Vec<u8>) {
        debug_assert!(self.is_empty() && packets.len() <= self.staging.capacity());
        (self.to, self.via, self.segment_len) = (packet.to, packet.via, packet.len);
        (self.bytes, self.segments) = (packets.len(), packets.len().div_ceil(packet.len.max(1)));
        if packets.capacity() < self.staging.capacity() {
            return self.stage(|out| out.append(packets));
        }
        // A long vector takes the place of the staging buffer, so that nothing is copied.
        std::mem::swap(&mut self.staging, packets);
        let (start, len) = (self.staging.as_ptr(), self.staging.len());
        // SAFETY: what is staged stays until the batch is cleared, and its slices with it.
        self.slices.push(unsafe { Slice::from_raw(start, len) });
    }

    /// Begins a packet. Its bytes follow by `stage` and `refer` and must be exactly `packet.len`.
    pub(super) fn begin(&mut self, packet: Shape) {
        if self.is_empty() {
            (self.to, self.via, self.segment_len) = (packet.to, packet.via, packet.len);
        }
        self.follow(packet.len);
    }

    /// Begins a packet of `len` bytes with the destination of the others, see
    /// [`BatchBuilder::begin`].
    #[inline]
    pub(super) fn follow(&mut self, len: usize) {
        debug_assert!(self.bytes + len <= self.staging.capacity());
        self.ended = len < self.segment_len;
        self.segments += 1;
        self.bytes += len;
    }

    /// Appends the bytes that `write` appends to the staging buffer.
    pub(super) fn stage(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (before, room) = (self.staging.len(), self.staging.capacity());
        write(&mut self.staging);
        assert!(self.staging.capacity() == room, "a batch was staged beyond its length");
        let added = self.staging.len() - before;
        let base = self.staging.as_ptr();
        // SAFETY: `before` is inside the allocation.
        let start = unsafe { base.add(before) };
        match self.slices.last_mut() {
            // Bytes staged one after the other share one slice.
            Some(last) if last.start() >= base && last.ends_at(start) => {
                // SAFETY: both are staged, so these are bytes of one allocation.
                unsafe { last.extend(added) };
            }
            // SAFETY: what is staged stays until the batch is cleared, and its slices with it.
            _ if added > 0 => self.slices.push(unsafe { Slice::from_raw(start, added) }),
            _ => {}
        }
    }

    /// Appends bytes without a copy.
    ///
    /// # Safety
    /// The bytes must be registered, and readable until the batch is sent or cleared.
    pub(super) unsafe fn refer(&mut self, addr: u64, len: usize) {
        let start = std::ptr::with_exposed_provenance(addr as usize);
        // SAFETY: the caller vouches for the bytes; the slice goes when the batch is cleared.
        self.slices.push(unsafe { Slice::from_raw(start, len) });
        self.refers = true;
    }

    pub(super) fn send(&self, link: &mut dyn Link) -> io::Result<SendResult> {
        link.send(&DatagramBatch {
            to: self.to,
            via: self.via,
            segment_len: self.segment_len,
            ecn: self.ecn,
            slices: &self.slices,
        })
    }

    pub(super) fn clear(&mut self) {
        self.staging.clear();
        self.slices.clear();
        (self.segments, self.bytes) = (0, 0);
        (self.ended, self.refers, self.ecn) = (false, false, false);
    }
}
