//! Whether the peer receives at the address that it calls a rail's.

use std::time::Duration;

use braid_wire::Time;

/// From the first PING to the second; each further one waits twice as long as the one before ..
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// .. up to this.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// After so many PONGs with another stamp the peer is guessing, and the rail is never used.
const WRONG_ANSWERS: u32 = 16;

/// The state of one rail's proof.
#[derive(Debug)]
pub(super) enum Proof {
    /// Given, or not needed.
    Given,
    Open {
        stamp: u32,
        due: Time,
        wait: Duration,
        /// PINGs sent.
        sent: u32,
        wrong: u32,
    },
    Failed,
}

impl Proof {
    /// The peer has shown at set-up that it receives there.
    pub(super) fn not_needed() -> Self {
        Proof::Given
    }

    /// The peer has to echo this stamp.
    pub(super) fn needed(stamp: u32) -> Self {
        Proof::Open { stamp, due: Time::ZERO, wait: FIRST_WAIT, sent: 0, wrong: 0 }
    }

    pub(super) fn is_given(&self) -> bool {
        matches!(self, Proof::Given)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Proof::Open { .. })
    }

    /// If a PING is due: how many there were before, and its stamp, always the same, so that a late answer counts.
    pub(super) fn poll(&mut self, now: Time) -> Option<(u32, u32)> {
        let Proof::Open { stamp, due, wait, sent, .. } = self else { return None };
        if *due > now {
            return None;
        }
        let before = *sent;
        *sent = sent.wrapping_add(1);
        *due = now + *wait;
        *wait = (*wait * 2).min(LONGEST_WAIT);
        Some((before, *stamp))
    }

    pub(super) fn next(&self) -> Option<Time> {
        match self {
            Proof::Open { due, .. } => Some(*due),
            Proof::Given | Proof::Failed => None,
        }
    }

    /// A PONG has come by this rail. Returns whether that proves it.
    pub(super) fn on_answer(&mut self, echoed: u32) -> bool {
        let Proof::Open { stamp, wrong, .. } = self else { return false };
        if echoed == *stamp {
            *self = Proof::Given;
            return true;
        }
        *wrong += 1;
        if *wrong >= WRONG_ANSWERS {
            *self = Proof::Failed;
        }
        false
    }
}
