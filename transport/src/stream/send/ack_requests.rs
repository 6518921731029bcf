//! When a segment asks for an acknowledgement.

use super::segment::Segment;

/// Bytes between two of those that ask, at most.
const MAX_INTERVAL: u64 = 128 << 10;
/// Half of a burst of small messages: at least so many segments, and at most so many bytes.
const HALF_SEGMENTS: u32 = 16;
const HALF_BYTES: u64 = 16 << 10;
/// Half of a burst of READs: at least so many requests. Their responses make more work than small
/// messages.
const HALF_REQUESTS: u32 = 8;

/// Counts what has left since a segment asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckRequests {
    bytes: u64,
    segments: u32,
    /// A segment asks after so many bytes ...
    most_bytes: u64,
    /// .. or segments.
    most_segments: u32,
}

impl AckRequests {
    /// Asks at least four times in `room` bytes in flight, so that the window opens again before it
    /// is shut.
    pub(crate) fn new(room: u64, most_segments: u32) -> Self {
        let mut asks = AckRequests { bytes: 0, segments: 0, most_bytes: 1, most_segments };
        asks.set_room(room);
        asks
    }

    /// So many bytes may be in flight from now on.
    pub(crate) fn set_room(&mut self, room: u64) {
        self.most_bytes = (room / 4).clamp(1, MAX_INTERVAL);
    }

    /// A segment with `len` bytes of payload leaves.
    pub(crate) fn count(&mut self, len: u16) {
        self.bytes += Segment::wire_len(len);
        self.segments += 1;
    }

    /// Whether half of a burst of small messages or READs has left, of which nothing had left
    /// before: `flying` segments are in flight, and `left` more messages wait. The last that left
    /// has `len` bytes of payload, a request has none. The peer works on the first half while the
    /// second is made; in one batch, both ends would work in turn. A sender with more than a batch
    /// to send, or with one in flight, has two of them anyway.
    #[inline]
    pub(crate) fn halves_burst(&self, len: u16, flying: u32, left: usize) -> bool {
        let least = if len == 0 { HALF_REQUESTS } else { HALF_SEGMENTS };
        let is_half = self.segments >= least && self.bytes <= HALF_BYTES;
        let sent = self.segments as usize;
        is_half && self.segments == flying && (sent - 1..=sent).contains(&left)
    }

    pub(crate) fn is_time(&self) -> bool {
        self.segments >= self.most_segments || self.bytes >= self.most_bytes
    }

    /// The segment that was counted last asks.
    pub(crate) fn ask(&mut self) {
        (self.bytes, self.segments) = (0, 0);
    }
}
