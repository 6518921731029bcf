//! Runs. A run consists of new segments that leave directly behind another segment, on its path and
//! in its batch.

use braid_wire::{DATA_HEADER_LEN, PathId, Psn};

/// The segments of a run that remain to be handed out. A default run is over.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Run {
    pub(crate) next: Psn,
    pub(crate) left: u32,
    pub(crate) path: PathId,
    /// Payload bytes of all its segments.
    pub(crate) bytes: u64,
    /// Whether a segment of it continues the message of the one before.
    pub(crate) is_split: bool,
    /// Whether the last segment requests an acknowledgement.
    pub(crate) asks: bool,
}

impl Run {
    /// Adds a segment with `len` bytes of payload.
    #[inline]
    pub(crate) fn add(&mut self, len: u16) {
        self.left += 1;
        self.bytes += u64::from(len);
    }

    /// The PSN behind its last segment.
    pub(crate) fn end(&self) -> Psn {
        self.next.plus(self.left.into())
    }

    /// Bytes on the wire of its segments, before any was handed out.
    #[inline]
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.bytes + u64::from(self.left) * DATA_HEADER_LEN as u64
    }

    /// Hands out the next `segments` segments.
    pub(crate) fn advance(&mut self, segments: u32) {
        self.left -= segments;
        self.next = self.next.plus(segments.into());
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}
