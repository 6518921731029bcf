//! The state of liveness detection: signs of life of the peer, and the PINGs that ask for them.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{ControlKind, PathId, Time};

use super::ring::Ring;
use crate::Egress;

/// Maximum number of PINGs that wait to be answered. PINGs that check several paths come at once.
const MOST_ANSWERS: usize = 16;

/// The state of liveness detection.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Time at which [`crate::Endpoint::on_timeout`] has work: the earliest of `check_at`,
    /// `look_at` and the next step of `doubt`.
    pub(super) due: Time,
    /// End of the present interval.
    pub(super) check_at: Time,
    /// Time at which an answer to a PING counts as missing.
    pub(super) look_at: Time,
    pub(super) silence: Silence,
    /// Number of intervals that have ended since the peer answered or acknowledged anything.
    pub(super) without_answer: u32,
    /// The longest round trip known in the intervals without an answer, and in the one before them.
    pub(super) slowest: Duration,
    /// The queue pairs that send PINGs: all that receive.
    pub(super) ring: Ring,
    pub(super) question: Option<Question>,
    /// Whether the next interval's PING takes a path. PINGs alternate between a path and the
    /// receiving port, because one of them may be dead.
    pub(super) asks_by_path: bool,
    /// Answers to PINGs that are waiting to be sent.
    pub(super) answers: VecDeque<Answer>,
    /// The path of an acknowledgement that seems not to have reached the peer.
    pub(super) unacked_path: Option<PathId>,
    /// The doubt after an ICMP port unreachable from the peer's host.
    pub(super) doubt: Option<Doubt>,
    /// No new doubt begins before this time.
    pub(super) trusted_until: Time,
    /// The peer is silent and the driver has not been informed yet.
    pub(super) is_silent: bool,
}

/// Events since the last packet from the peer. The arrival of a packet clears all of them with one
/// store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// The PING of an interval has been sent.
    pub(super) asked: bool,
    /// A time-out of a queue pair has occurred.
    pub(super) timed_out: bool,
    /// A doubt has begun.
    pub(super) is_doubted: bool,
    /// The complaint of the peer's host: ICMP port unreachable.
    pub(super) complaint: Complaint,
    /// Number of intervals whose PING was not answered.
    pub(super) unanswered: u32,
}

/// ICMP port unreachable since the last packet from the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Complaint {
    #[default]
    None,
    /// A message about a path that has carried nothing recently: perhaps a firewall rejects that
    /// path.
    OfPath,
    /// A message about the receiving port, or about a path that has worked a moment ago.
    OfPeer,
}

/// The time until a peer in doubt is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    pub(super) ends_at: Time,
    /// Time of the next PINGs.
    pub(super) step_at: Time,
    pub(super) step: Duration,
    /// The doubt was prolonged because the driver did not run.
    pub(super) is_prolonged: bool,
}

/// A PING that is waiting to be sent on behalf of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) index: u32,
    pub(super) by_path: bool,
    pub(super) by_port: bool,
}

/// The ports that a PING leaves from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ways {
    /// The port of a path or the receiving port, in turn.
    Next,
    /// The receiving port: a peer that does not know the queue pair can reply to this port.
    Port,
    /// The port of a path, and the receiving port.
    Both,
}

/// The answer to a PING. Like the PING, it leaves from the port of a path or from the receiving
/// port: a stateful firewall between the two hosts may let through nothing but replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) index: u32,
    pub(super) kind: ControlKind,
    pub(super) stamp: u32,
    pub(super) egress: Egress,
}

impl Liveness {
    pub(super) fn new(check_at: Time) -> Self {
        Liveness {
            due: check_at,
            check_at,
            look_at: Time::FAR_FUTURE,
            silence: Silence::default(),
            without_answer: 0,
            slowest: Duration::ZERO,
            ring: Ring::default(),
            question: None,
            asks_by_path: false,
            answers: VecDeque::new(),
            unacked_path: None,
            doubt: None,
            trusted_until: Time::ZERO,
            is_silent: false,
        }
    }

    /// Resets the state when the first queue pair joins.
    pub(super) fn begin(&mut self, check_at: Time) {
        (self.silence, self.doubt) = (Silence::default(), None);
        (self.check_at, self.look_at) = (check_at, Time::FAR_FUTURE);
        self.rearm();
    }

    pub(super) fn rearm(&mut self) {
        let step = self.doubt.map_or(Time::FAR_FUTURE, |doubt| doubt.step_at);
        self.due = self.check_at.min(self.look_at).min(step);
    }

    /// Queues the answer to a PING. If too many are waiting, the oldest is dropped.
    pub(super) fn answer(&mut self, answer: Answer) {
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }
}
