//! The next segment of a stream, as far as it is known. The stream determines it once a segment has
//! left, because the last segment asks for an acknowledgement. The choice holds until something
//! happens to the queue pair, so that nobody makes it twice.

use braid_wire::Psn;

use super::segment::Segment;
use super::send_limits::{Block, Need};
use super::source::Next;

/// The segment that goes out next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) next: Next,
    /// Its PSN, if it was lost.
    pub(crate) lost: Option<Psn>,
    /// The budget that it takes to send it.
    pub(crate) needs: Need,
}

impl Choice {
    /// Shortens the segment to `most` bytes of payload, which the chosen rail carries. A segment
    /// that has a PSN keeps its length.
    #[inline]
    pub(crate) fn cut_to(mut self, most: u16) -> Self {
        if self.next.len > most && self.lost.is_none() {
            self.next.len = most;
            self.needs = Need::new(self.needs.rail(), Segment::wire_len(most));
        }
        self
    }
}

/// Knowledge of the next segment.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) enum NextSegment {
    /// Nothing.
    #[default]
    Unknown,
    /// Nothing goes out before something happens.
    Blocked(Block),
    /// This segment leaves, if the budget suffices. Time does not revoke that: a rate that lets it
    /// out once does so later.
    Segment(Choice),
}

impl NextSegment {
    pub(crate) fn new(found: Result<Choice, Block>) -> Self {
        match found {
            Ok(choice) => NextSegment::Segment(choice),
            Err(Block::Budget(_) | Block::Rate) => NextSegment::Unknown,
            Err(block) => NextSegment::Blocked(block),
        }
    }
}
