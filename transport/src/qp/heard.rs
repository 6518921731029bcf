//! What an outgoing stream learns from acknowledgements, and of losses.

use std::time::Duration;

use braid_lb::{Outcome, Rails};
use braid_wire::{Ack, Psn, Time};

use super::acks::AckOutcome;
use super::credit::{Acked, Credit};
use super::outgoing::Outgoing;
use super::recovery::{Detector, Report};
use super::segment::{Echo, Segment, Tally};
use super::window::{NotTaken, Window};
use super::withheld;

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
                if !segment.is_first_flight() && !self.awaits_receiver {
                    late += u32::from(self.detector.on_doubted(now, segment, echo, rails));
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
        let mut lost = Tally::default();
        if !overtaken {
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
            lost = self.lose(now, rails, |detector, window, lost| {
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

    /// Has segments declared lost, and the paths hear of it.
    pub(super) fn lose(
        &mut self,
        now: Time,
        rails: &mut Rails,
        declare: impl FnOnce(&mut Detector, &mut Window, &mut dyn FnMut(&Segment)),
    ) -> Tally {
        let mut lost = Tally::default();
        let (stream, subflows) = (self.stream, &mut self.subflows);
        declare(&mut self.detector, &mut self.window, &mut |segment| {
            lost.count(segment);
            subflows.on_lost(segment);
            rails.on_feedback(stream, now, segment.path, Outcome::Lost { packets: 1 });
        });
        lost
    }

    /// The network says that the segment of this PSN (24 bits) was lost. Returns how many it was.
    pub(crate) fn on_lost(&mut self, now: Time, psn: u32, rails: &mut Rails) -> u64 {
        let psn = Psn::expand(psn, self.window.una());
        let lost = self.lose(now, rails, |_, window, lost| window.lose_one(psn, lost));
        self.tell_lost(now, lost, 0);
        lost.packets
    }
}
