//! Proof that the peer receives at the address that it gave for a rail.

use std::time::Duration;

use braid_wire::Time;

/// Interval between the first two PINGs. Each further interval doubles.
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// Maximum interval between PINGs.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// PONGs with a wrong stamp after which the peer is assumed to be guessing, and the rail is never
/// used.
const WRONG_ANSWERS: u32 = 16;

/// The state of the proof of one rail.
#[derive(Debug)]
pub(super) enum Proof {
    /// Complete, or not needed.
    Given,
    Open {
        stamp: u32,
        due: Time,
        wait: Duration,
        /// Number of PINGs sent.
        sent: u32,
        wrong: u32,
    },
    Failed,
}

impl Proof {
    /// Creates the state of a rail whose address the set-up has proved.
    pub(super) fn not_needed() -> Self {
        Proof::Given
    }

    /// Creates the state of a rail on which the peer must echo `stamp`.
    pub(super) fn needed(stamp: u32) -> Self {
        Proof::Open { stamp, due: Time::ZERO, wait: FIRST_WAIT, sent: 0, wrong: 0 }
    }

    pub(super) fn is_given(&self) -> bool {
        matches!(self, Proof::Given)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Proof::Open { .. })
    }

    /// Returns the number of earlier PINGs and the stamp if a PING is due. The stamp is constant,
    /// so that a late reply counts.
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

    /// Processes a PONG on this rail. Returns whether it completes the proof.
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
