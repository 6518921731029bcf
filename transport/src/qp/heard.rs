//! What an outgoing stream learns from acknowledgements, and of losses.

use std::time::Duration;

use braid_lb::{Outcome, RailSet, Rails};
use braid_wire::{Ack, NakCode, Psn, Time};

use super::acks::AckOutcome;
use super::ahead::Ahead;
use super::credit::{Acked, Credit};
use super::outgoing::Outgoing;
use super::recovery::{Detector, Report};
use super::segment::{Echo, Segment, Tally};
use super::window::{NotTaken, Window};
use super::withheld;
use crate::{QpConfig, Remote};

/// Why a segment is declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Because {
    /// Its probe was answered, or the network says so.
    Proof,
    /// Others have overtaken it. Where a path keeps the order, one of the same path proves the
    /// loss.
    Order,
    /// It is late.
    Time,
}

impl Outgoing {
    /// Learns from an acknowledgement of this stream.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        rails: &mut Rails,
    ) -> Result<AckOutcome, NotTaken> {
        if self.paws.is_stale(now, ack.stamp) {
            return Err(NotTaken::Foreign);
        }
        let cumulative = Psn::expand(ack.cumulative, self.window.una());
        if !self.window.may_have_ended_at(cumulative) {
            return Err(NotTaken::Foreign);
        }
        let overtaken = cumulative < self.window.una();
        let delay = Duration::from_nanos(ack.delay_ns.into());
        let rtt = now.since_stamp(ack.stamp).saturating_sub(delay);
        let ecn_marks = self.marks.on_report(&ack.marks, self.subflows.count());
        let echo = Echo { path: ack.path, stamp: ack.stamp };
        let answers_probe = self.answers_probe(echo);
        let received = Acked { now, delay, echo, rtt, in_flight: *self.window.in_flight() };
        let reorders = rails.reordering().is_any();
        let mut credit = Credit::new(&received, &mut self.marks, &mut self.subflows, reorders);
        let mut late = 0;
        let acked = if overtaken {
            Tally::default()
        } else {
            self.window.ack(cumulative, ack.bitmap.words(), echo, |psn, segment, certain| {
                if certain {
                    self.detector.on_arrival(now, segment, rails);
                }
                if !segment.is_first_flight() {
                    let is_late = !self.awaits_receiver
                        && self.detector.on_presumed_acked(now, segment, echo, rails);
                    late += u32::from(is_late);
                    self.suspects.on_acked(now, segment, echo);
                }
                if let (Some(direct), Some(epoch)) = (&mut self.direct, segment.first_epoch()) {
                    direct.on_arrival(epoch);
                }
                credit.take(psn, segment, certain, rails, self.stream);
            })?
        };
        credit.end(&ack.marks, rails, self.stream);
        if self.window.shows_withheld(withheld::FOLLOWERS) {
            self.window.release();
        }
        let spurious = self.spurious.on_duplicates(ack.duplicates);
        let mut needless = late + spurious;
        if spurious > 0 && self.detector.on_duplicates(now, echo, spurious, rails) {
            needless -= 1;
        }
        self.detector.follow(now, rails);
        // What is refused for want of a receive is not lost: it leaves again after the pause.
        let is_refused =
            matches!(ack.nak, Some((NakCode::ReceiverNotReady, _))) || self.paused_until.is_some();
        if !self.suspects.is_empty() {
            self.judge_suspects(now, is_refused, spurious, rails);
        }
        let mut lost = Tally::default();
        if !overtaken && !is_refused && self.detector.has_cause(&self.window) {
            let report = Report {
                now,
                cumulative,
                highest: Psn::expand(ack.highest, cumulative),
                early: acked.early,
                spurious,
                rtt,
                reorder_time: self.subflows.reorder_time(),
                overdue: self.subflows.overdue(),
            };
            lost = self.lose(now, rails, Because::Order, |detector, window, lost| {
                detector.detect(&report, window, lost);
            });
            if lost.packets > 0 {
                self.detector.tell_lost(rails);
            }
        }
        if answers_probe {
            lost.add(self.on_probe_answered(now, spurious, rails));
        }
        if acked.packets > 0 {
            self.subflows.of(ack.path).into_iter().for_each(|subflow| subflow.rtt.on_sample(rtt));
            self.on_progress(now);
        }
        self.tell_lost(now, lost, needless);
        let spurious = spurious.into();
        Ok(AckOutcome { acked: acked.packets, lost: lost.packets, spurious, ecn_marks })
    }

    /// The controllers hear of losses, if there are any, and of so many that were none.
    pub(super) fn tell_lost(&mut self, now: Time, lost: Tally, needless: u32) {
        if lost.packets > 0 {
            self.subflows.tell_lost(now);
        }
        if needless > 0 {
            self.subflows.tell_spurious(now, needless);
        }
        self.follow_window();
    }

    /// The controllers have been told something, and their windows may have changed.
    pub(super) fn follow_window(&mut self) {
        if let Some(window) = self.subflows.ask() {
            self.asks.set_room(window.min(self.peer_bytes));
        }
    }

    /// The controllers of these rails begin anew.
    pub(super) fn restart_controllers(&mut self, rails: RailSet, config: &QpConfig, of: &Remote) {
        self.subflows.restart_controllers(rails, config, of);
        self.ahead = Ahead::Unknown;
        self.follow_window();
        self.asks.set_room(self.subflows.current().cc.window().min(self.peer_bytes));
    }

    /// Has segments declared lost. Their paths hear of it at once if there is proof, and otherwise
    /// when there is. On a path that reorders its order proves nothing.
    pub(super) fn lose(
        &mut self,
        now: Time,
        rails: &mut Rails,
        because: Because,
        declare: impl FnOnce(&mut Detector, &mut Window, &mut dyn FnMut(&Segment)),
    ) -> Tally {
        let mut lost = Tally::default();
        let (stream, subflows, suspects) = (self.stream, &mut self.subflows, &mut self.suspects);
        let goes_back = matches!(self.detector, Detector::GoBackN(_));
        let guesses = because == Because::Time
            || (because == Because::Order && !matches!(self.detector, Detector::FifoPath(_)));
        declare(&mut self.detector, &mut self.window, &mut |segment| {
            lost.count(segment);
            subflows.on_lost(segment);
            // What follows the first is sent again whatever became of it: its receiver has dropped
            // it.
            if goes_back && lost.packets > 1 {
                return rails.on_feedback(
                    stream,
                    now,
                    segment.path,
                    Outcome::Forgotten { packets: 1 },
                );
            }
            let is_guess = guesses
                || now - segment.sent_at > subflows.overdue()
                || !rails.reordering().window(segment.path).is_zero();
            if !is_guess || !suspects.add(segment) {
                rails.on_feedback(stream, now, segment.path, Outcome::Lost { packets: 1 });
            }
        });
        lost
    }

    /// The paths hear what the acknowledgement has shown of what had been declared lost.
    #[cold]
    fn judge_suspects(&mut self, now: Time, is_refused: bool, spurious: u32, rails: &mut Rails) {
        let (stream, overdue) = (self.stream, self.subflows.overdue());
        if is_refused {
            return self.suspects.clear(|path, outcome| {
                rails.on_feedback(stream, now, path, outcome);
            });
        }
        self.suspects.resolve(now, overdue, spurious, |path, outcome| {
            rails.on_feedback(stream, now, path, outcome);
        });
    }

    /// The network says that the segment of this PSN (24 bits) was lost. Returns how many it was.
    pub(crate) fn on_lost(&mut self, now: Time, psn: u32, rails: &mut Rails) -> u64 {
        let psn = Psn::expand(psn, self.window.una());
        let lost =
            self.lose(now, rails, Because::Proof, |_, window, lost| window.lose_one(psn, lost));
        self.tell_lost(now, lost, 0);
        lost.packets
    }
}
