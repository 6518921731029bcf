//! Skipped segments, which catch a peer that acknowledges what it has not received.
//!
//! Acknowledgements open the window. A peer that invents them makes this end send at a rate that
//! nobody has found the network to carry (RFC 9000, section 21.4). So now and then a segment that
//! others follow is entered in the window and not sent (Sherwood, Bhattacharjee and Braud,
//! "Misbehaving TCP receivers can cause Internet-wide congestion collapse", 2005). A peer that
//! acknowledges it has invented that. The segment leaves once the peer has acknowledged what is
//! around it and not the segment itself. It does not count as lost.
//!
//! The number of segments from one skipped segment to the next is drawn from 1 to as many as have
//! left by then. So a blind peer obtains about as much as it received before, and a stream of n
//! segments waits some log2(n) times for a round trip. A keyed hash draws: the peer sees where
//! earlier skipped segments were, and must not find out where the next one is.

use std::hash::Hasher as _;

use braid_wire::{Psn, Stream, Token};
use siphasher::sip::SipHasher24;

use crate::{EndpointConfig, LossRecovery};

/// Number of segments behind a skipped one that have to be acknowledged before it leaves. A peer
/// that leaves out every ninth segment is right once in nine times.
pub(crate) const FOLLOWERS: u32 = 8;

/// The first one is among so many segments, ...
const FIRST: u64 = 64;
/// ... and from one to the next there are at most so many.
const FARTHEST: u64 = 1 << 16;

const NEVER: Psn = Psn(u64::MAX);

/// When a stream skips segments. A default one never does.
#[derive(Clone, Debug)]
pub(crate) struct SkipSchedule {
    seed: Option<u64>,
    first: Psn,
    /// The next one is this, or the first after it that may be.
    next: Psn,
}

impl Default for SkipSchedule {
    fn default() -> Self {
        SkipSchedule { seed: None, first: Psn(0), next: NEVER }
    }
}

impl SkipSchedule {
    /// The schedule of a stream that begins at `first`. `token`: that of its queue pair.
    pub(crate) fn new(
        config: &EndpointConfig,
        recovery: LossRecovery,
        token: Token,
        first: u32,
        stream: Stream,
    ) -> Self {
        // With go-back-N a hole costs all that follows. With direct placement the NIC itself
        // acknowledges.
        let suits = recovery != LossRecovery::GoBackN && config.direct.is_none();
        let Some(key) = config.withholding_key.filter(|_| suits) else { return Self::default() };
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write_u64(token.0.into());
        hasher.write_u32(first);
        hasher.write_u8(matches!(stream, Stream::Responses).into());
        let first = Psn(first.into());
        let mut schedule = SkipSchedule { seed: Some(hasher.finish()), first, next: first };
        schedule.redraw(first);
        schedule
    }

    /// Whether the segment of this PSN may be the next one.
    #[inline]
    pub(crate) fn is_due(&self, psn: Psn) -> bool {
        psn >= self.next
    }

    /// Number of segments that leave before one that may be skipped.
    pub(crate) fn due_in(&self, psn: Psn) -> u64 {
        self.next.0.saturating_sub(psn.0)
    }

    /// This segment could not be skipped: another one of those that come soon is.
    pub(crate) fn redraw(&mut self, psn: Psn) {
        self.draw(psn, FIRST);
    }

    /// The one for which it was suspended leaves; all below `sent` have left by now.
    pub(crate) fn resume(&mut self, sent: Psn) {
        if self.next == NEVER {
            self.draw(sent, (sent.0 - self.first.0).clamp(FIRST, FARTHEST));
        }
    }

    /// None before the one that is skipped has left.
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
