//! Decides which segments request an acknowledgement.

use super::segment::Segment;

/// Maximum number of bytes between two requests.
const MAX_INTERVAL: u64 = 128 << 10;
/// Half of a burst of small messages: at least this many segments, and at most this many bytes.
const HALF_SEGMENTS: u32 = 16;
const HALF_BYTES: u64 = 16 << 10;
/// Half of a burst of READs: at least this many requests. Their responses make more work than small
/// messages.
const HALF_REQUESTS: u32 = 8;

/// Counts what was sent since the last request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckRequests {
    bytes: u64,
    segments: u32,
    /// A segment requests an acknowledgement after this many bytes ...
    most_bytes: u64,
    /// ... or segments.
    most_segments: u32,
}

impl AckRequests {
    /// Requests acknowledgements at least four times per `room` bytes in flight, so that the window
    /// opens again before it is used up.
    pub(crate) fn new(room: u64, most_segments: u32) -> Self {
        let mut asks = AckRequests { bytes: 0, segments: 0, most_bytes: 1, most_segments };
        asks.set_room(room);
        asks
    }

    /// Sets the number of bytes that may be in flight.
    pub(crate) fn set_room(&mut self, room: u64) {
        self.most_bytes = (room / 4).clamp(1, MAX_INTERVAL);
    }

    /// Counts a segment with `len` bytes of payload.
    pub(crate) fn count(&mut self, len: u16) {
        self.bytes += Segment::wire_len(len);
        self.segments += 1;
    }

    /// Whether half of a burst of small messages or READs was sent, and nothing else is in flight.
    /// `len`: payload bytes of the last segment, 0 for a request; `segments_in_flight`: their
    /// number; `left`: messages that wait. The peer then works on the first half while the second
    /// is made; with one batch, both ends would work in turn. A sender with more than a batch to
    /// send, or with one in flight, has two batches anyway.
    #[inline]
    pub(crate) fn halves_burst(&self, len: u16, segments_in_flight: u32, left: usize) -> bool {
        let least = if len == 0 { HALF_REQUESTS } else { HALF_SEGMENTS };
        let is_half = self.segments >= least && self.bytes <= HALF_BYTES;
        let sent = self.segments as usize;
        is_half && self.segments == segments_in_flight && (sent - 1..=sent).contains(&left)
    }

    pub(crate) fn is_time(&self) -> bool {
        self.segments >= self.most_segments || self.bytes >= self.most_bytes
    }

    /// Records that the segment counted last requests an acknowledgement.
    pub(crate) fn ask(&mut self) {
        (self.bytes, self.segments) = (0, 0);
    }
}
