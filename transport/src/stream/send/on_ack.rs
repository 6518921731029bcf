//! Handling of acknowledgements, from the window to the path set.
//!
//! [`SendStream::on_ack`] handles an acknowledgement completely. The window removes the
//! acknowledged segments, a [`PathFeedback`] reports arrivals to the path set and the controllers,
//! and loss detection decides which of the other segments are lost. A response acknowledges its
//! request, too ([`SendStream::on_implied_ack`]), and so does the last acknowledgement in the
//! peer's DISCONNECT.

use std::time::Duration;

use braid_cc::{AckSample, RttSample};
use braid_lb::{Outcome, RailSet, Rails, StreamId};
use braid_wire::{Ack, Marks, NakCode, PathId, Psn, Time};

use super::chunks::ChunkAck;
use super::congestion::Congestion;
use super::next_segment::NextSegment;
use super::recovery::Detector;
use super::recovery::report::Report;
use super::segment::{Echo, Segment, Tally};
use super::send_stream::SendStream;
use super::skipped_segments::FOLLOWERS;
use super::subflow::Subflow;
use super::subflows::Subflows;
use super::window::{Credit, NotTaken, Window};
use crate::stream::marks::ReportedMarks;
use crate::stream::per_rail::RailBytes;
use crate::{QpConfig, Remote};

/// Results of an acknowledgement.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AckOutcome {
    /// Newly acknowledged segments.
    pub(crate) acked: u64,
    /// Segments newly declared lost.
    pub(crate) lost: u64,
    /// Retransmissions newly known to be spurious.
    pub(crate) spurious: u64,
    /// Newly reported congestion marks.
    pub(crate) ecn_marks: u64,
}

/// Reason why a segment is declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Because {
    /// Its probe was answered, or the network reports the loss.
    Proof,
    /// Later segments have overtaken it. On a path that keeps order, one of the same path proves
    /// the loss.
    Order,
    /// The segment is late: its age exceeds a limit.
    Time,
}

impl SendStream {
    /// Handles an acknowledgement of this stream.
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
        let mut feedback =
            PathFeedback::new(&received, &mut self.marks, &mut self.subflows, reorders);
        feedback.ends_silence = self.clock.timeouts > 0;
        let mut late = 0;
        let acked = if overtaken {
            Tally::default()
        } else {
            self.window.ack(cumulative, ack.bitmap.words(), echo, |credit| {
                let segment = credit.segment;
                if credit.certain {
                    self.losses.detector.on_arrival(now, segment, rails);
                }
                if !segment.is_first_flight() {
                    let is_late = !self.rnr.awaits_receiver
                        && self.losses.detector.on_presumed_acked(now, segment, echo, rails);
                    late += u32::from(is_late);
                    self.losses.suspects.on_acked(now, segment, echo);
                }
                if let (Some(direct), Some(epoch)) = (&mut self.direct, segment.first_epoch()) {
                    direct.on_arrival(epoch);
                }
                feedback.take(credit, rails, self.stream);
            })?
        };
        feedback.end(&ack.marks, rails, self.stream);
        if self.window.shows_skipped(FOLLOWERS) {
            self.window.release();
        }
        let spurious = self.losses.spurious.on_duplicates(ack.duplicates);
        let mut needless = late + spurious;
        if spurious > 0 && self.losses.detector.on_duplicates(now, echo, spurious, rails) {
            needless -= 1;
        }
        self.losses.detector.follow(now, rails);
        // Segments that were refused for lack of a receive are not lost: they leave again after the
        // pause.
        let is_refused = matches!(ack.nak, Some((NakCode::ReceiverNotReady, _)))
            || self.rnr.paused_until.is_some();
        if !self.losses.suspects.is_empty() {
            self.judge_suspects(now, echo, is_refused, spurious, rails);
        }
        let mut lost = Tally::default();
        if !overtaken && !is_refused && self.losses.detector.has_cause(&self.window) {
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
                self.losses.detector.report_lost(rails);
            }
        }
        if answers_probe {
            lost.add(self.on_probe_answered(now, spurious, rails));
        }
        if acked.packets > 0 {
            self.subflows.of(ack.path).into_iter().for_each(|subflow| subflow.rtt.on_sample(rtt));
            self.on_progress(now);
        }
        self.report_lost(now, lost, needless);
        let spurious = spurious.into();
        Ok(AckOutcome { acked: acked.packets, lost: lost.packets, spurious, ecn_marks })
    }

    /// Handles progress: the counts of time-outs and probes are reset.
    pub(crate) fn on_progress(&mut self, now: Time) {
        self.forget_timeouts();
        self.losses.probes.due = 0;
        self.losses.probes.was_late = false;
        self.follow_probe();
        self.rnr.awaits_receiver = false;
        if !self.window.awaits_ack() {
            if self.subflows.use_credit() {
                self.subflows.on_all_acked();
            }
            self.clock.deadline = None;
            self.losses.forget_open();
        } else {
            self.wait(now);
        }
    }

    /// Reports losses, if there are any, and spurious retransmissions to the controllers.
    pub(crate) fn report_lost(&mut self, now: Time, lost: Tally, needless: u32) {
        if lost.packets > 0 {
            self.subflows.report_lost(now);
        }
        if needless > 0 {
            self.subflows.report_spurious(now, needless);
        }
        self.follow_window();
    }

    /// Adapts to the controllers' windows after an event was reported to them.
    pub(crate) fn follow_window(&mut self) {
        if let Some(window) = self.subflows.ask() {
            self.ack_requests.set_room(window.min(self.peer_bytes));
        }
    }

    /// Replaces the controllers of these rails by new ones.
    pub(crate) fn restart_controllers(&mut self, rails: RailSet, config: &QpConfig, of: &Remote) {
        self.subflows.restart_controllers(rails, config, of);
        self.next_segment = NextSegment::Unknown;
        self.follow_window();
        self.ack_requests.set_room(self.subflows.current().cc.window().min(self.peer_bytes));
    }

    /// Declares segments lost. They are reported to the path set at once if there is proof, and
    /// otherwise when there is. On a path that reorders, the order of packets is no proof.
    pub(crate) fn lose(
        &mut self,
        now: Time,
        rails: &mut Rails,
        because: Because,
        declare: impl FnOnce(&mut Detector, &mut Window, &mut dyn FnMut(&Segment)),
    ) -> Tally {
        let mut lost = Tally::default();
        let (stream, subflows, suspects) =
            (self.stream, &mut self.subflows, &mut self.losses.suspects);
        let goes_back = matches!(self.losses.detector, Detector::GoBackN(_));
        let guesses = because == Because::Time
            || (because == Because::Order
                && !matches!(self.losses.detector, Detector::FifoPath(_)));
        declare(&mut self.losses.detector, &mut self.window, &mut |segment| {
            lost.count(segment);
            subflows.on_lost(segment, rails.is_in_use(segment.path));
            // Segments after the first are retransmitted whatever became of them, because the
            // receiver has dropped them.
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
            let outcome = match is_guess {
                true if suspects.add(segment) => return,
                true => Outcome::Forgotten { packets: 1 },
                false => Outcome::Lost { packets: 1, sent_at: segment.sent_at },
            };
            rails.on_feedback(stream, now, segment.path, outcome);
        });
        lost
    }

    /// Reports to the path set which of the suspects the acknowledgement has shown to be lost or
    /// not.
    #[cold]
    fn judge_suspects(
        &mut self,
        now: Time,
        echo: Echo,
        is_refused: bool,
        spurious: u32,
        rails: &mut Rails,
    ) {
        let (stream, overdue) = (self.stream, self.subflows.overdue());
        if is_refused {
            return self.losses.suspects.clear(|path, outcome| {
                rails.on_feedback(stream, now, path, outcome);
            });
        }
        self.losses.suspects.resolve(echo.sent_at(now), overdue, spurious, |path, outcome| {
            rails.on_feedback(stream, now, path, outcome);
        });
    }

    /// Handles a loss that the network reports, by PSN (24 bits). Returns the number of segments
    /// lost.
    pub(crate) fn on_lost(&mut self, now: Time, psn: u32, rails: &mut Rails) -> u64 {
        let psn = Psn::expand(psn, self.window.una());
        let lost =
            self.lose(now, rails, Because::Proof, |_, window, lost| window.lose_one(psn, lost));
        if lost.packets > 0 {
            self.subflows.report_trimmed(now);
        }
        self.follow_window();
        lost.packets
    }

    /// Acknowledges everything up to `psn`, because a response proves that it has arrived. Returns
    /// false if that cannot be.
    pub(crate) fn on_implied_ack(&mut self, now: Time, psn: Psn) -> bool {
        if self.window.contradicts(psn.plus(1), &[]) {
            return false;
        }
        let in_flight = *self.window.in_flight();
        let moved = self.imply(psn.plus(1), |subflows, credit| {
            let &Credit { packets, bytes, segment, .. } = credit;
            let (path, marks) = (segment.path, 0);
            let arrival = ChunkAck { now, peer_delay: Duration::ZERO, rtt: None };
            credit.psns().for_each(|psn| subflows.on_acked(psn, arrival));
            if let Some(Subflow { cc, .. }) = subflows.of(path) {
                let (in_flight, app_limited) = (in_flight[path.rail()], cc.is_app_limited());
                let rtt = None; // includes the peer's processing time, which is unknown
                let sample =
                    AckSample { now, path, packets, bytes, marks, rtt, in_flight, app_limited };
                cc.on_ack(&sample);
            }
            Outcome::Arrived { packets, rtt: now - segment.sent_at, congested: false }
        });
        if moved {
            self.subflows.report_chunks();
            self.follow_window();
            self.on_progress(now);
        }
        true
    }

    /// Acknowledges everything below `end` by the peer's last acknowledgement. This is no feedback
    /// for the paths.
    pub(crate) fn on_final_ack(&mut self, end: Psn) {
        self.imply(end, |_, credit| Outcome::Forgotten { packets: credit.packets });
        self.subflows.forget();
    }

    /// Whether `end` can be the peer's last ePSN: everything below it was sent, and it is not less
    /// than what is acknowledged.
    pub(crate) fn can_end_at(&self, end: Psn) -> bool {
        (self.window.una()..=self.window.next()).contains(&end)
            && !self.window.contradicts(end, &[])
    }

    fn imply(
        &mut self,
        end: Psn,
        mut outcome: impl FnMut(&mut Subflows, &Credit<'_>) -> Outcome,
    ) -> bool {
        if end <= self.window.una() {
            return false;
        }
        let (unreported, subflows) = (&mut self.losses.unreported, &mut self.subflows);
        let no_echo = Echo { path: PathId::default(), stamp: 0 };
        let told = |credit: &Credit<'_>| {
            let segment = credit.segment;
            if let (Some(direct), Some(epoch)) = (&mut self.direct, segment.first_epoch()) {
                direct.on_arrival(epoch);
            }
            unreported.push((segment.path, outcome(subflows, credit)));
        };
        self.window.ack(end, &[], no_echo, told).is_ok()
    }
}

/// An acknowledgement that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// Delay of the acknowledgement at the peer.
    pub(crate) delay: Duration,
    pub(crate) echo: Echo,
    /// Round trip of the echoed packet, without that delay.
    pub(crate) rtt: Duration,
    /// Bytes in flight before it arrived.
    pub(crate) in_flight: RailBytes,
}

impl Acked {
    /// Returns a sample without packets.
    fn blank(&self, path: PathId, marks: u32, cc: &Congestion) -> AckSample {
        let (now, in_flight) = (self.now, self.in_flight[path.rail()]);
        let (packets, bytes, rtt, app_limited) = (0, 0, None, cc.is_app_limited());
        AckSample { now, path, packets, bytes, marks, rtt, in_flight, app_limited }
    }
}

/// Consecutive acknowledged segments of the same path, which were sent as a batch.
#[derive(Clone, Copy, Default, Debug)]
struct AckedRun {
    path: PathId,
    packets: u32,
    bytes: u64,
    rtt: Duration,
    /// Whether the echoed packet may be one of them.
    echoes: bool,
    sample: Option<RttSample>,
}

/// Collects runs of segments, and reports each to the path set and the controller.
#[derive(Debug)]
pub(crate) struct PathFeedback<'a> {
    ack: &'a Acked,
    marks: &'a mut ReportedMarks,
    subflows: &'a mut Subflows,
    run: AckedRun,
    /// Whether the controller has its round-trip sample. An acknowledgement yields one sample,
    /// however many segments left with the same stamp.
    sampled: bool,
    /// Whether the controller wants reports of chunks.
    follows_chunks: bool,
    /// Whether any path reorders.
    reorders: bool,
    /// Whether this is the first acknowledgement after a time-out.
    ends_silence: bool,
}

impl<'a> PathFeedback<'a> {
    pub(crate) fn new(
        ack: &'a Acked,
        marks: &'a mut ReportedMarks,
        subflows: &'a mut Subflows,
        reorders: bool,
    ) -> Self {
        let run = AckedRun { echoes: ack.echo.path == PathId::default(), ..AckedRun::default() };
        let follows_chunks = subflows.current().cc.follows_chunks();
        PathFeedback {
            ack,
            marks,
            subflows,
            run,
            sampled: false,
            follows_chunks,
            reorders,
            ends_silence: false,
        }
    }

    /// Takes acknowledged segments.
    pub(crate) fn take(&mut self, credit: &Credit<'_>, rails: &mut Rails, stream: StreamId) {
        let &Credit { packets, bytes, segment, certain, .. } = credit;
        let path = segment.path;
        if path != self.run.path {
            self.close(rails, stream);
            let echoes = path == self.ack.echo.path && !self.sampled;
            self.run = AckedRun { path, echoes, ..AckedRun::default() };
        }
        self.run.packets += packets;
        self.run.bytes += bytes;
        let rtt = (self.ack.now - segment.sent_at).saturating_sub(self.ack.delay);
        // An ambiguous acknowledgement yields no round-trip sample (Karn's algorithm, RFC 6298,
        // section 3).
        self.run.rtt = if certain { rtt } else { self.ack.rtt };
        let mut sampled = None;
        let echoes = self.run.echoes && segment.sent_at.stamp() == self.ack.echo.stamp;
        let mut queued = rtt;
        if self.reorders && certain && (echoes || self.follows_chunks) {
            queued = self.without_lateness(path, rtt, rails);
        }
        if echoes {
            sampled = Some(queued);
            self.run.sample = Some(RttSample { sent_at: segment.sent_at, rtt: queued });
        }
        if self.follows_chunks {
            let (now, peer_delay) = (self.ack.now, self.ack.delay + (rtt - queued));
            let arrival = ChunkAck { now, peer_delay, rtt: sampled };
            credit.psns().for_each(|psn| self.subflows.on_acked(psn, arrival));
        }
    }

    /// Estimates the part of a round trip that is due to queues. A packet that later ones of its
    /// path have overtaken was not delayed by a queue. So on a path that reorders, the estimate is
    /// the shortest round trip within the time that packets are late, two thirds of the reordering
    /// window.
    #[cold]
    #[inline(never)]
    fn without_lateness(&mut self, path: PathId, rtt: Duration, rails: &Rails) -> Duration {
        let window = rails.reordering().window(path);
        match self.subflows.of(path) {
            Some(subflow) if !window.is_zero() => {
                subflow.shortest.within(window * 2 / 3, self.ack.now, rtt)
            }
            _ => rtt,
        }
    }

    fn close(&mut self, rails: &mut Rails, stream: StreamId) {
        let AckedRun { path, packets, bytes, rtt, sample, .. } = self.run;
        if packets > 0 {
            self.sampled |= sample.is_some();
            let (mut marks, mut congested) = self.marks.take(path);
            if self.marks.is_watching() && !self.counts_marks(path, packets, marks) {
                (marks, congested) = (0, false);
            }
            let arrived = Outcome::Arrived { packets, rtt, congested };
            rails.on_feedback(stream, self.ack.now, path, arrived);
            let Some(subflow) = self.subflows.of(path) else { return };
            let rtt = if self.reorders { may_take(path, rtt, subflow, rails) } else { rtt };
            // After a time-out, only the round trip of the echoed packet is known. Others may have
            // arrived long ago, and their acknowledgements were lost.
            if sample.is_some() || !self.ends_silence {
                subflow.rtt.on_path_sample(rtt);
            }
            let marks = marks + subflow.device_marks(rails.devices().refusals(path.rail()));
            let blank = self.ack.blank(path, marks, &subflow.cc);
            subflow.cc.on_ack(&AckSample { packets, bytes, rtt: sample, ..blank });
        }
    }

    /// Whether the marks of this path are used.
    fn counts_marks(&mut self, path: PathId, packets: u32, marks: u32) -> bool {
        let Some(subflow) = self.subflows.of(path) else { return true };
        let watch = (&mut subflow.marks, subflow.cc.window());
        self.marks.watch(self.ack.now, path.rail(), (packets, marks), watch)
    }

    /// Ends the feedback of an acknowledgement. `reported`: its marks, some of which may belong to
    /// segments that were acknowledged before.
    pub(crate) fn end(mut self, reported: &Marks, rails: &mut Rails, stream: StreamId) {
        self.close(rails, stream);
        for marks in reported.iter() {
            let late = self.marks.take_alone(marks.path);
            let late = if self.counts_marks(marks.path, 0, late) { late } else { 0 };
            if let Some(subflow) = self.subflows.of(marks.path).filter(|_| late > 0) {
                subflow.cc.on_ack(&self.ack.blank(marks.path, late, &subflow.cc));
            }
        }
        if self.follows_chunks {
            self.subflows.report_chunks();
        }
    }
}

/// Returns the longest plausible round trip of a path, given a sample `rtt`. On a path that
/// reorders, this is the shortest round trip plus the reordering window.
#[cold]
#[inline(never)]
fn may_take(path: PathId, rtt: Duration, subflow: &Subflow, rails: &Rails) -> Duration {
    match (rails.reordering().window(path), subflow.shortest.get()) {
        (Duration::ZERO, _) | (_, None) => rtt,
        (window, Some(shortest)) => rtt.max(shortest + window),
    }
}
