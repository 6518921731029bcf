//! The next segment of a stream, as far as it is known. The stream determines it as soon as a
//! segment has left, because a segment that nothing follows requests an acknowledgement. The choice
//! is cached until the next event of the queue pair.

use braid_wire::Psn;

use super::segment::Segment;
use super::send_limits::{Block, Need};
use super::source::Next;

/// The next segment to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) next: Next,
    /// PSN of the segment if it was lost or released.
    pub(crate) lost: Option<Psn>,
    /// Budget that the transmission takes.
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
    /// Not determined yet.
    #[default]
    Unknown,
    /// Nothing can leave before the next event.
    Blocked(Block),
    /// This segment leaves if the budget suffices. The choice does not expire: if pacing permits a
    /// segment now, it does so later, too.
    Segment(Choice),
}

impl NextSegment {
    pub(crate) fn new(found: Result<Choice, Block>) -> Self {
        match found {
            Ok(choice) => NextSegment::Segment(choice),
            Err(Block::Budget(_) | Block::Rate | Block::CreditRequest) => NextSegment::Unknown,
            Err(block) => NextSegment::Blocked(block),
        }
    }
}
