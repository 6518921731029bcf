//! Whether the peer is alive, and whether dead paths work again.

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::{RailProbe, Rails};
use braid_wire::{ControlKind, PathId, Time};

use super::ring::Ring;
use super::{Endpoint, QpSlot, Transmit, TransmitBody};
use crate::patience::patience;
use crate::{Egress, EndCause};

/// Who comes back listens for this part of an interval before it judges: until then it has taken in what came while it
/// was away.
const LISTENS: u32 = 8;

/// PINGs that wait for their answers, at most: those that find out about several paths come at once.
const MOST_ANSWERS: usize = 16;

/// Signs of life of the peer.
#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) check_at: Time,
    /// A ping was sent since nothing was heard.
    asked: bool,
    /// Intervals in which one was not answered.
    unanswered: u32,
    /// The longest round trip known of in those, and in the one before.
    slowest: Duration,
    /// Those that ask: all that receive.
    pub(super) ring: Ring,
    /// The queue pair that is to ask for a sign of life.
    asker: Option<u32>,
    /// Questions take paths and the receiving port in turn: a single way may be dead.
    asks_by_path: bool,
    /// What is to be answered.
    answers: VecDeque<Answer>,
    /// What was acknowledged by this path comes again.
    pub(super) doubted: Option<PathId>,
}

/// The answer to a PING. It leaves as the PING did, by the port of a path or by the receiving port: a stateful firewall between the
/// two lets back what answers, and nothing else.
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
            check_at,
            asked: false,
            unanswered: 0,
            slowest: Duration::ZERO,
            ring: Ring::default(),
            asker: None,
            asks_by_path: false,
            answers: VecDeque::new(),
            doubted: None,
        }
    }

    /// A PING is to be answered. Of many that come at once the oldest are not.
    pub(super) fn answer(&mut self, answer: Answer) {
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }
}

impl Endpoint {
    pub(super) fn heard(&mut self) {
        (self.liveness.asked, self.liveness.unanswered) = (false, 0);
    }

    /// The queue pairs ask for a sign of life in turn, one in each interval, also while others hear from the peer: the
    /// other end of just one may be gone and its DISCONNECT lost. They ask whether they wait for something or not: one
    /// whose memory the peer writes to would never know otherwise. A peer that is silent through enough pings is given up.
    pub(super) fn check_liveness(&mut self, now: Time) {
        if now < self.liveness.check_at {
            return;
        }
        let interval = self.config.ping_interval;
        // Who did not run did not listen: an answer may be there.
        if self.liveness.asked && now - self.liveness.check_at >= interval {
            self.liveness.check_at = now + interval / LISTENS;
            self.ping_next();
            return;
        }
        self.liveness.check_at = now + interval;
        let longest = self.round_trips.get(now);
        let before = if self.liveness.asked { self.liveness.slowest } else { Duration::ZERO };
        self.liveness.slowest = longest.max(before);
        self.liveness.unanswered += u32::from(self.liveness.asked);
        let limit = patience(self.config.peer_timeout, self.liveness.slowest);
        let limit = (limit.as_nanos() / interval.as_nanos().max(1)).max(1);
        if u128::from(self.liveness.unanswered) < limit {
            self.ping_next();
            return;
        }
        self.liveness.unanswered = 0;
        while let Some(index) = self.liveness.ring.first() {
            self.liveness.ring.remove(index);
            if let Some(member) = self.members[index as usize].as_mut() {
                member.qp.give_up(EndCause::PeerSilent);
                self.settle(index);
            }
        }
    }

    /// Pings on behalf of the next queue pair.
    pub(super) fn ping_next(&mut self) {
        self.liveness.asker = self.liveness.ring.advance();
        self.liveness.asked = self.liveness.asker.is_some();
        self.control_due = true;
    }

    /// The next packet that is not of a message: what peers ask, what they are asked, and what paths are.
    #[cold]
    pub(super) fn poll_control(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        if let Some(path) = self.liveness.doubted.take() {
            rails.doubt(now, path);
        }
        let transmit = self
            .poll_liveness(now, rails)
            .or_else(|| self.poll_probe(now, rails))
            .or_else(|| self.poll_path_mtu(now, rails));
        self.control_due = transmit.is_some();
        transmit
    }

    fn poll_liveness(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        while let Some(Answer { index, kind, stamp, egress }) = self.liveness.answers.pop_front() {
            let transmit = self.control(index, kind, stamp, egress);
            if transmit.is_some() {
                return transmit;
            }
        }
        let index = self.liveness.asker.take()?;
        let qp = &mut self.members[index as usize].as_mut()?.qp;
        let egress = match self.liveness.asks_by_path {
            true => Egress::Path(qp.single_path(now, rails)),
            false => Egress::Port(rails.next_live()),
        };
        self.liveness.asks_by_path = egress.path().is_none();
        self.control(index, ControlKind::Ping, now.stamp(), egress)
    }

    /// A queue pair that can ask whether a path works again.
    pub(super) fn prober(&self) -> Option<u32> {
        self.liveness.ring.first()
    }

    /// A path or rail that is out of use is asked whether it works again, and a new rail whether the peer is there.
    fn poll_probe(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        rails.next_probe().filter(|at| *at <= now)?;
        let index = self.prober()?;
        let RailProbe { path, by_port, stamp } = rails.poll_probe(now)?;
        // Where the ports of paths cannot be blocked, what the receiving port reaches says nothing of where data goes.
        let egress = match by_port && self.config.search_path_mtu {
            true => Egress::Port(path.rail()),
            false => Egress::Path(path),
        };
        self.control(index, ControlKind::Ping, stamp, egress)
    }

    fn control(
        &self,
        index: u32,
        kind: ControlKind,
        stamp: u32,
        egress: Egress,
    ) -> Option<Transmit> {
        let member = self.members[index as usize].as_ref()?;
        let control = member.qp.control(kind, stamp)?;
        Some(Transmit { slot: QpSlot(index), body: TransmitBody::Control(control, egress) })
    }
}
