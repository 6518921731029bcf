//! Whether the peer is alive, and whether dead paths work again.

use std::time::Duration;

use braid_lb::{RailProbe, Rails};
use braid_wire::{ControlKind, Time};

use super::liveness::{Answer, Complaint, Question, Silence, Ways};
use super::members::Endpoint;
use crate::patience::patience;
use crate::{Egress, EndCause, QpSlot, Transmit, TransmitBody};

/// An endpoint whose driver comes back listens for this part of an interval before it judges, so
/// that it takes in what came meanwhile.
const LISTENS: u32 = 8;

/// The answer to a PING is missed after this part of an interval, or after two round trips.
const MISSED_AFTER: u32 = 8;

impl Endpoint {
    #[inline]
    pub(super) fn heard(&mut self) {
        self.liveness.silence = Silence::default();
    }

    /// Handles the intervals. The queue pairs ask for a sign of life in turn, one in each interval,
    /// also while others hear from the peer: the other end of just one may be gone and its
    /// DISCONNECT lost. They ask whether they wait for something or not, because one whose memory
    /// the peer writes to would never know otherwise. A peer that is silent through enough pings is
    /// given up.
    pub(super) fn check_liveness(&mut self, now: Time) {
        if now < self.liveness.due {
            return;
        }
        self.check_doubt(now);
        if now >= self.liveness.look_at {
            self.miss_answer(now);
        }
        if now >= self.liveness.check_at {
            self.end_interval(now);
        }
        self.liveness.rearm();
    }

    fn end_interval(&mut self, now: Time) {
        let interval = self.config.ping_interval;
        // Who did not run did not listen: an answer may be there.
        if self.liveness.silence.asked && now - self.liveness.check_at >= interval {
            self.liveness.check_at = now + interval / LISTENS;
            self.ask_in_turn(now);
            return;
        }
        self.liveness.check_at = now + interval;
        let longest = self.round_trips.get(now);
        let Silence { asked, .. } = self.liveness.silence;
        let before = if asked { self.liveness.slowest } else { Duration::ZERO };
        self.liveness.slowest = longest.max(before);
        self.liveness.silence.unanswered += u32::from(asked);
        let limit = patience(self.config.peer_timeout, self.liveness.slowest);
        let limit = (limit.as_nanos() / interval.as_nanos().max(1)).max(1);
        if u128::from(self.liveness.silence.unanswered) < limit {
            self.ask_in_turn(now);
        } else {
            self.give_up_peer(EndCause::PeerSilent);
        }
    }

    pub(super) fn give_up_peer(&mut self, cause: EndCause) {
        self.heard();
        while let Some(index) = self.liveness.ring.first() {
            self.liveness.ring.remove(index);
            if let Some(member) = self.members[index as usize].as_mut() {
                match cause {
                    EndCause::PeerGone => member.qp.give_up_untold(cause),
                    _ => member.qp.give_up(cause),
                }
                self.settle(index);
            }
        }
    }

    /// The question of an interval.
    fn ask_in_turn(&mut self, now: Time) {
        self.ask(Ways::Next);
        self.liveness.silence.asked = self.liveness.question.is_some();
        self.expect_answer(now);
    }

    fn expect_answer(&mut self, now: Time) {
        let missed = self.config.ping_interval / MISSED_AFTER;
        self.liveness.look_at = now + missed.max(2 * self.usual_round_trip(now));
    }

    /// Asks on behalf of the next queue pair.
    pub(super) fn ask(&mut self, ways: Ways) {
        let Some(index) = self.liveness.ring.advance() else { return };
        let [mut by_path, mut by_port] = match ways {
            Ways::Next => [self.liveness.asks_by_path, !self.liveness.asks_by_path],
            Ways::Port => [false, true],
            Ways::Both => [true, true],
        };
        if ways == Ways::Next {
            self.liveness.asks_by_path = by_port;
        }
        if let Some(waiting) = self.liveness.question {
            (by_path, by_port) = (by_path | waiting.by_path, by_port | waiting.by_port);
        }
        self.liveness.question = Some(Question { index, by_path, by_port });
        self.control_due = true;
    }

    /// The peer seems not to hear or not to answer, or only not by the way that was tried.
    fn miss_answer(&mut self, now: Time) {
        self.liveness.look_at = Time::FAR_FUTURE;
        if self.liveness.silence.complaint != Complaint::None && self.liveness.doubt.is_none() {
            self.begin_doubt(now);
        } else if self.liveness.silence.asked {
            self.liveness.is_silent = true;
            self.ask(Ways::Port);
            self.expect_answer(now);
        }
    }

    /// A retransmission has timed out. The second one in a silence asks whether the peer still
    /// knows the queue pair: to data for one that it does not have, it says nothing.
    pub(super) fn miss_acks(&mut self) {
        self.liveness.is_silent = true;
        if std::mem::replace(&mut self.liveness.silence.timed_out, true) {
            self.ask(Ways::Port);
        }
    }

    /// Returns the next packet that is not of a message: answers to PINGs, PINGs, and probes of
    /// paths.
    #[cold]
    pub(super) fn poll_control(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        if let Some(path) = self.liveness.unheard_by.take() {
            rails.check_paths(now, path);
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
        let Question { index, by_path, by_port } = self.liveness.question.take()?;
        let qp = &mut self.members[index as usize].as_mut()?.qp;
        let egress = match by_path {
            true => Egress::Path(qp.single_path(now, rails)),
            false => Egress::Port(rails.next_live()),
        };
        if by_path && by_port {
            self.liveness.question = Some(Question { index, by_path: false, by_port });
        }
        self.control(index, ControlKind::Ping, now.stamp(), egress)
    }

    /// A queue pair that can ask whether a path works again.
    pub(super) fn prober(&self) -> Option<u32> {
        self.liveness.ring.first()
    }

    /// Asks whether a path or rail that is out of use works again, or whether the peer is there on
    /// a new rail.
    fn poll_probe(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        rails.next_probe().filter(|at| *at <= now)?;
        let index = self.prober()?;
        let RailProbe { path, by_port, stamp } = rails.poll_probe(now)?;
        // Where the ports of paths cannot be blocked, an answer to the receiving port says nothing
        // of where data goes.
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
        let control = member.qp.control(kind, stamp);
        let (slot, egress) = (QpSlot(index), self.path_mtu.permitted(egress));
        Some(Transmit { slot, egress, body: TransmitBody::Control(control) })
    }
}
