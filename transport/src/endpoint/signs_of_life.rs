//! Liveness detection: whether the peer is alive, and whether dead paths work again.

use std::time::Duration;

use braid_lb::{RailProbe, Rails};
use braid_wire::{ControlKind, Time};

use super::liveness::{Answer, Complaint, Question, Silence, Ways};
use super::members::Endpoint;
use crate::patience::patience;
use crate::{Egress, EndCause, QpSlot, Transmit, TransmitBody};

/// Part of an interval for which an endpoint listens after its driver was paused, before it judges.
/// By then it has read what arrived in the pause.
const LISTENS: u32 = 8;

/// Part of an interval after which the answer to a PING counts as missing, or two round trips if
/// that is longer.
const MISSED_AFTER: u32 = 8;

impl Endpoint {
    #[inline]
    pub(super) fn heard(&mut self) {
        self.liveness.silence = Silence::default();
    }

    /// Handles the ends of intervals. The queue pairs send PINGs in turn, one in each interval,
    /// even if others receive packets: a single queue pair's other end may be gone and its
    /// DISCONNECT lost. They do so even if they wait for nothing, because a queue pair that is only
    /// written to would never notice. A peer that leaves enough PINGs unanswered is given up.
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
        self.liveness.without_answer = self.liveness.without_answer.saturating_add(1);
        // While the driver did not run, it did not receive: an answer may be waiting.
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

    /// Number of PING intervals that have ended since the peer answered a PING or acknowledged a
    /// segment. Its own PINGs do not count, because they arrive even if it receives nothing.
    /// `None`: no queue pair sends PINGs.
    pub fn intervals_without_answer(&self) -> Option<u32> {
        self.liveness.ring.first().map(|_| self.liveness.without_answer)
    }

    pub(super) fn give_up_peer(&mut self, cause: EndCause) {
        self.heard();
        while let Some(index) = self.liveness.ring.first() {
            self.liveness.ring.remove(index);
            if let Some(member) = self.members[index as usize].as_mut() {
                match cause {
                    EndCause::PeerGone => member.qp.give_up_silently(cause),
                    _ => member.qp.give_up(cause),
                }
                self.settle(index);
            }
        }
    }

    /// Sends the PING of an interval.
    fn ask_in_turn(&mut self, now: Time) {
        self.ask(Ways::Next);
        self.liveness.silence.asked = self.liveness.question.is_some();
        self.expect_answer(now);
    }

    fn expect_answer(&mut self, now: Time) {
        let missed = self.config.ping_interval / MISSED_AFTER;
        self.liveness.look_at = now + missed.max(2 * self.usual_round_trip(now));
    }

    /// Sends a PING on behalf of the next queue pair.
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

    /// Handles a missing answer to a PING: the peer seems not to receive or answer, or one port is
    /// dead.
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

    /// Handles the time-out of a retransmission. The second one in a silence sends a PING to find
    /// out whether the peer still knows the queue pair: data for an unknown queue pair is not
    /// answered.
    pub(super) fn miss_acks(&mut self) {
        self.liveness.is_silent = true;
        if std::mem::replace(&mut self.liveness.silence.timed_out, true) {
            self.ask(Ways::Port);
        }
    }

    /// Returns the next packet that belongs to no message: an answer to a PING, a PING, or a probe
    /// of a path.
    #[cold]
    pub(super) fn poll_control(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        if let Some(path) = self.liveness.unacked_path.take() {
            rails.check_paths(now, path);
        }
        let transmit = self
            .poll_liveness(now, rails)
            .or_else(|| self.poll_grant(now, rails))
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

    /// Returns a queue pair that can probe whether a path works again.
    pub(super) fn prober(&self) -> Option<u32> {
        self.liveness.ring.first()
    }

    /// Sends a PING to find out whether a path or rail that is out of use works again, or whether
    /// the peer can be reached on a new rail.
    fn poll_probe(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        rails.next_probe().filter(|at| *at <= now)?;
        let index = self.prober()?;
        let RailProbe { path, by_port, stamp } = rails.poll_probe(now)?;
        // If the ports of paths cannot be blocked, an answer to the receiving port proves nothing
        // about the path that data takes.
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
