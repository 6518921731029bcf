//! Signs of life of the peer, and the questions that ask for them.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{ControlKind, PathId, Time};

use super::ring::Ring;
use crate::Egress;

/// PINGs that wait for their answers, at most: those that find out about several paths come at
/// once.
const MOST_ANSWERS: usize = 16;

/// Signs of life of the peer.
#[derive(Debug)]
pub(super) struct Liveness {
    /// When [`crate::Endpoint::on_timeout`] has something to do: the first of `check_at`, `look_at`
    /// and the step of `doubt`.
    pub(super) due: Time,
    /// When an interval ends.
    pub(super) check_at: Time,
    /// When an answer is missed.
    pub(super) look_at: Time,
    pub(super) silence: Silence,
    /// The longest round trip known of in the intervals without an answer, and in the one before.
    pub(super) slowest: Duration,
    /// Those that ask: all that receive.
    pub(super) ring: Ring,
    pub(super) question: Option<Question>,
    /// Questions of intervals take paths and the receiving port in turn: a single way may be dead.
    pub(super) asks_by_path: bool,
    /// Answers to PINGs that are to leave.
    pub(super) answers: VecDeque<Answer>,
    /// The path of an acknowledgement that the peer seems not to have heard.
    pub(super) unheard_by: Option<PathId>,
    /// The peer's host says that nobody receives at its port.
    pub(super) doubt: Option<Doubt>,
    /// No other doubt begins before.
    pub(super) trusted_until: Time,
    /// The driver has not been told yet that the peer is silent.
    pub(super) is_silent: bool,
}

/// Events since the peer was heard last. All of them are forgotten, with one store, when a packet
/// arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// The question of an interval has left.
    pub(super) asked: bool,
    /// A retransmission has timed out.
    pub(super) timed_out: bool,
    /// A doubt has begun.
    pub(super) is_doubted: bool,
    /// The peer's host says that nobody receives at its port.
    pub(super) complaint: Complaint,
    /// Intervals in which a question was not answered.
    pub(super) unanswered: u32,
}

/// Complaint of the peer's host since the peer was heard last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Complaint {
    #[default]
    None,
    /// Nobody receives what comes by a path that has carried nothing of late, perhaps because a
    /// firewall refuses that path.
    OfPath,
    /// Nobody receives what comes by the receiving port, or by a path that has worked a moment ago.
    OfPeer,
}

/// The time until a peer that is doubted is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    pub(super) ends_at: Time,
    /// When the peer is asked again.
    pub(super) step_at: Time,
    pub(super) step: Duration,
    /// The doubt was prolonged, because the driver did not run.
    pub(super) is_prolonged: bool,
}

/// A queue pair that is to ask for a sign of life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) index: u32,
    pub(super) by_path: bool,
    pub(super) by_port: bool,
}

/// By which ports a question leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ways {
    /// By a path or by the receiving port, in turn.
    Next,
    /// By the receiving port: to it, a peer that does not know the queue pair can answer.
    Port,
    /// By a path and by the receiving port.
    Both,
}

/// The answer to a PING. It leaves as the PING did, by the port of a path or by the receiving port:
/// a stateful firewall between the two lets back answers, and nothing else.
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
            slowest: Duration::ZERO,
            ring: Ring::default(),
            question: None,
            asks_by_path: false,
            answers: VecDeque::new(),
            unheard_by: None,
            doubt: None,
            trusted_until: Time::ZERO,
            is_silent: false,
        }
    }

    /// The first queue pair joins.
    pub(super) fn begin(&mut self, check_at: Time) {
        (self.silence, self.doubt) = (Silence::default(), None);
        (self.check_at, self.look_at) = (check_at, Time::FAR_FUTURE);
        self.rearm();
    }

    pub(super) fn rearm(&mut self) {
        let step = self.doubt.map_or(Time::FAR_FUTURE, |doubt| doubt.step_at);
        self.due = self.check_at.min(self.look_at).min(step);
    }

    /// A PING is to be answered. Of many that come at once the oldest are not.
    pub(super) fn answer(&mut self, answer: Answer) {
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }
}
