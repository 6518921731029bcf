//! Sources of new segments: the send queue for requests, the queue of responses for responses.

use braid_wire::{DataHeader, Psn};

use crate::SgList;

/// A segment to send: bytes `offset .. offset + len` of message `source`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    pub(crate) source: u64,
    pub(crate) offset: u32,
    pub(crate) len: u16,
}

/// Limits on new segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Payload bytes of a full segment.
    pub(crate) mtu: u16,
    /// Payload bytes of a full segment of a WRITE.
    pub(crate) write_mtu: u16,
    /// READs and atomics that the peer executes at a time.
    pub(crate) max_rd_atomic: u8,
    /// Whether only work requests that were begun may continue (state SQD).
    pub(crate) is_draining: bool,
}

/// The messages that a stream carries, in order.
pub(crate) trait Source {
    /// Returns the next new segment, or `None` if there is none or it has to wait.
    fn peek(&self, limits: Limits) -> Option<Next>;

    /// Returns the payload bytes of the message of this segment from its beginning on.
    fn left_of(&self, next: Next) -> u32;

    /// Assigns the PSNs from `first` to `last` to the segment that [`Source::peek`] returned and to
    /// those behind it, which carry `bytes` bytes of its message. Moves on to the next segment.
    fn advance(&mut self, next: Next, bytes: u32, first: Psn, last: Psn);

    /// Returns the bytes on the wire of the messages that were not sent, in segments of `mtu`
    /// bytes. Stops counting at `most` bytes.
    fn backlog(&self, mtu: u16, most: u64) -> u64;

    /// Returns whether every message was sent completely.
    fn is_used_up(&self) -> bool;

    /// Returns the number of messages that wait behind the current one.
    fn left_behind(&self) -> usize;

    /// Returns whether a segment carries the payload of a WRITE.
    fn is_write(&self, next: Next) -> bool;

    /// Fills in the header fields that depend on the message. Returns the memory of `bytes` bytes
    /// of payload from the beginning of this segment, or `None` if the message is gone.
    fn describe(&self, next: Next, bytes: u32, header: &mut DataHeader) -> Option<SgList>;
}
