//! What is on its way to the peer, and what its sockets can still hold.

use braid_wire::RailId;

use super::LONGEST_SEGMENT;
use crate::qp::{QueuePair, RailBytes};

/// Bytes by rail, of all queue pairs. Invariant: `left` follows from `bytes` and `buffer`.
#[derive(Debug)]
pub(super) struct InFlight {
    bytes: RailBytes,
    left: RailBytes,
    /// What the peer's socket of each rail holds.
    buffer: u64,
    rails: usize,
}

impl InFlight {
    /// `buffer`: bytes that the peer's socket of each rail holds.
    pub(super) fn new(buffer: u64) -> Self {
        let mut empty =
            InFlight { bytes: RailBytes::default(), left: RailBytes::default(), buffer, rails: 0 };
        empty.use_rails(1);
        empty
    }

    pub(super) fn use_rails(&mut self, count: usize) {
        for rail in (self.rails..count).map(RailId::new) {
            self.left[rail] = self.left_of(0);
        }
        self.rails = self.rails.max(count);
    }

    #[inline]
    pub(super) fn on(&self, rail: RailId) -> u64 {
        self.bytes[rail]
    }

    /// What each rail can still take.
    #[inline]
    pub(super) fn left(&self) -> &RailBytes {
        &self.left
    }

    /// An idle socket takes one segment, however small its buffer is.
    #[inline]
    fn left_of(&self, in_flight: u64) -> u64 {
        match in_flight {
            0 => self.buffer.max(LONGEST_SEGMENT),
            in_flight => self.buffer.saturating_sub(in_flight),
        }
    }

    /// Follows a queue pair, whose `share` of it was that before.
    #[inline]
    pub(super) fn follow(&mut self, qp: &QueuePair, share: &mut RailBytes) {
        self.change(RailId::FIRST, &mut share[RailId::FIRST], qp.in_flight(RailId::FIRST));
        for rail in (1..self.rails).map(RailId::new) {
            self.change(rail, &mut share[rail], qp.in_flight(rail));
        }
    }

    /// A queue pair is gone.
    pub(super) fn forget(&mut self, mut share: RailBytes) {
        for rail in (0..self.rails).map(RailId::new) {
            self.change(rail, &mut share[rail], 0);
        }
    }

    #[inline]
    fn change(&mut self, rail: RailId, share: &mut u64, now: u64) {
        if *share != now {
            self.bytes[rail] = self.bytes[rail] + now - *share;
            self.left[rail] = self.left_of(self.bytes[rail]);
            *share = now;
        }
    }
}
