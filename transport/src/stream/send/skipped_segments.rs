//! Skipped segments, which detect a peer that acknowledges what it has not received.
//!
//! Acknowledgements open the window. A peer that invents them makes this end send faster than the
//! network can carry (optimistic acks, RFC 9000, section 21.4). So from time to time a segment that
//! others follow is entered in the window but not sent. This is an idea of Sherwood, Bhattacharjee
//! and Braud ("Misbehaving TCP receivers can cause Internet-wide congestion collapse", 2005). A
//! peer that acknowledges the segment has invented the acknowledgement. The segment is sent once
//! the peer has acknowledged its neighbours but not the segment itself. It does not count as lost.
//!
//! The distance from one skipped segment to the next is drawn from 1 to the number of segments sent
//! so far. So a blind peer obtains about as much as it received before, and a stream of n segments
//! waits for a round trip about log2(n) times. The draw uses a keyed hash: the peer sees where
//! earlier skipped segments were, and must not be able to predict the next.

use std::hash::Hasher as _;

use braid_wire::{Psn, Stream, Token};
use siphasher::sip::SipHasher24;

use crate::{EndpointConfig, LossRecovery};

/// Number of segments after a skipped one that have to be acknowledged before it is sent. A peer
/// that leaves out every ninth segment is right once in nine times.
pub(crate) const FOLLOWERS: u32 = 8;

/// The first skipped segment is among this number of segments, ...
const FIRST: u64 = 64;
/// ... and this is the maximum distance from one to the next.
const FARTHEST: u64 = 1 << 16;

const NEVER: Psn = Psn(u64::MAX);

/// Schedule of skipped segments of a stream. The default schedule skips none.
#[derive(Clone, Debug)]
pub(crate) struct SkipSchedule {
    seed: Option<u64>,
    first: Psn,
    /// The next skipped segment is this one, or the first later one that can be skipped.
    next: Psn,
}

impl Default for SkipSchedule {
    fn default() -> Self {
        SkipSchedule { seed: None, first: Psn(0), next: NEVER }
    }
}

impl SkipSchedule {
    /// Creates the schedule of a stream that begins at `first`. `token`: the token of its queue
    /// pair.
    pub(crate) fn new(
        config: &EndpointConfig,
        recovery: LossRecovery,
        token: Token,
        first: u32,
        stream: Stream,
    ) -> Self {
        // With go-back-N a hole causes the retransmission of all later segments. With direct
        // placement the NIC itself acknowledges.
        let suits = recovery != LossRecovery::GoBackN && config.direct.is_none();
        let Some(key) = config.skip_key.filter(|_| suits) else { return Self::default() };
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write_u64(token.0.into());
        hasher.write_u32(first);
        hasher.write_u8(matches!(stream, Stream::Responses).into());
        let first = Psn(first.into());
        let mut schedule = SkipSchedule { seed: Some(hasher.finish()), first, next: first };
        schedule.redraw(first);
        schedule
    }

    /// Whether the segment with this PSN may be skipped.
    #[inline]
    pub(crate) fn is_due(&self, psn: Psn) -> bool {
        psn >= self.next
    }

    /// Number of segments before the next that may be skipped.
    pub(crate) fn due_in(&self, psn: Psn) -> u64 {
        self.next.0.saturating_sub(psn.0)
    }

    /// Chooses another segment, soon, because this one could not be skipped.
    pub(crate) fn redraw(&mut self, psn: Psn) {
        self.draw(psn, FIRST);
    }

    /// Resumes the schedule when the skipped segment is sent. `sent`: all lower PSNs have been
    /// sent.
    pub(crate) fn resume(&mut self, sent: Psn) {
        if self.next == NEVER {
            self.draw(sent, (sent.0 - self.first.0).clamp(FIRST, FARTHEST));
        }
    }

    /// Suspends the schedule until the skipped segment is sent.
    pub(crate) fn suspend(&mut self) {
        self.next = NEVER;
    }

    fn draw(&mut self, from: Psn, among: u64) {
        let Some(seed) = self.seed else { return };
        let mut hasher = SipHasher24::new_with_keys(seed, !seed);
        hasher.write_u64(from.0);
        self.next = from.plus(1 + hasher.finish() % among);
    }
}
