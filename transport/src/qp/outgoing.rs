//! One outgoing stream: its window, its clockwork, and when it may send.

use std::time::Duration;

use braid_cc::{Cc, Controller, Feedback};
use braid_lb::{Outcome, PathSet, QpPaths, Selector, Train};
use braid_wire::{Ack, PathId, Psn, Time};

use super::credit::Credit;
use super::recovery::{Detector, PROBES, Report};
use super::repeats::Repeats;
use super::rtt::Rtt;
use super::window::{Echo, Segment, Tally, Window};
use crate::QpConfig;

/// Bytes between two requests for an acknowledgement, at most.
const MAX_ASK_INTERVAL: u64 = 128 << 10;
/// Segments between two of them, at most.
const MAX_ASK_SEGMENTS: u32 = 32;
/// Where that many segments are no more bytes than this, the train ends there: the peer works on
/// the first half of a burst of small messages while the second is made.
const SMALL_BURST: u64 = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) window: Window,
    rtt: Rtt,
    detector: Detector,
    repeats: Repeats,
    cc: Cc,
    paths: QpPaths,
    /// What the path set has still to be told.
    untold: Vec<(PathId, Outcome)>,
    train: OpenTrain,
    /// Time-outs in a row without progress.
    timeouts: u8,
    deadline: Option<Time>,
    /// Retransmissions that go out whatever the windows say.
    probes: usize,
    /// "Receiver not ready": nothing goes out before.
    paused_until: Option<Time>,
    resume_from: Psn,
    rnr_tries: u32,
    /// Bytes sent since the last request for an acknowledgement.
    unasked: u64,
    /// Segments sent since then.
    unasked_segments: u32,
    ask_interval: u64,
    ecn_marks: u16,
}

/// The path that the current train takes.
#[derive(Clone, Copy, Debug, Default)]
struct OpenTrain {
    path: PathId,
    /// Segments that it still takes; 0: it has ended.
    left: u32,
    /// Bytes that it still takes.
    room: u64,
}

/// What an acknowledgement has taught.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lesson {
    /// Segments newly found lost.
    pub(crate) lost: u64,
    /// Retransmissions newly found to have been unnecessary.
    pub(crate) spurious: u64,
    /// Congestion marks newly reported.
    pub(crate) ecn_marks: u64,
}

/// A path's turn takes no more of the window than this part: what is in flight shall be spread over
/// paths. It may take several system calls of the driver; a path for each would cost an eighth of
/// the throughput in cold sockets where the window is large.
const TRAINS_IN_FLIGHT: u64 = 8;

/// What a train may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainLimit {
    pub(crate) segments: u32,
    /// Payload bytes of a full segment.
    pub(crate) mtu: u16,
}

impl TrainLimit {
    fn full_segment(self) -> u64 {
        Segment::wire_len(self.mtu)
    }

    /// Its bytes where the window allows `allowance`; a full segment always fits.
    fn room(self, allowance: u64) -> u64 {
        (allowance / TRAINS_IN_FLIGHT).max(self.full_segment())
    }

    /// How many full segments those are: what a policy plans with.
    fn full_segments(self, room: u64) -> u32 {
        u32::try_from(room / self.full_segment()).unwrap_or(u32::MAX).clamp(1, self.segments)
    }
}

/// What the peer and the endpoint leave this stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Packets that the peer tracks beyond its ePSN.
    pub(crate) window: u16,
    /// Bytes that the endpoint may still have in flight.
    pub(crate) budget: u64,
}

/// Why nothing can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// Something of this stream's own; an event will change it.
    Own,
    /// The endpoint's budget, which other queue pairs use up.
    Budget,
}

/// What a time-out means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    /// Not due.
    None,
    /// Something is to be resent: so many segments count as lost.
    Resend(u64),
    /// The peer has not answered for too long.
    GiveUp,
}

impl Outgoing {
    pub(crate) fn new(
        config: &QpConfig,
        first: Psn,
        mtu: u16,
        paths: QpPaths,
        peer_bytes: u64,
    ) -> Self {
        let cc = Cc::new(config.cc);
        let room = cc.allowance(0).min(peer_bytes);
        let segments = room / Segment::wire_len(mtu);
        Outgoing {
            window: Window::new(first),
            rtt: Rtt::new(config.min_rto, config.max_rto),
            detector: Detector::new(config, segments),
            repeats: Repeats::default(),
            cc,
            paths,
            untold: Vec::new(),
            train: OpenTrain::default(),
            timeouts: 0,
            deadline: None,
            probes: 0,
            paused_until: None,
            resume_from: first,
            rnr_tries: 0,
            unasked: 0,
            unasked_segments: 0,
            ask_interval: (room / 4).clamp(1, MAX_ASK_INTERVAL),
            ecn_marks: 0,
        }
    }

    /// Whether a segment with `len` bytes of payload may go out now; `fresh`: for the first time.
    pub(crate) fn may_send(
        &self,
        now: Time,
        len: u16,
        fresh: bool,
        room: Room,
    ) -> Result<(), Block> {
        if self.paused_until.is_some_and(|until| now < until) {
            return Err(Block::Own);
        }
        if !fresh && self.probes > 0 {
            return Ok(());
        }
        if fresh && self.window.span() >= u64::from(room.window) {
            return Err(Block::Own);
        }
        // A segment always fits an empty window, however small that is.
        let bytes = Segment::wire_len(len);
        let in_flight = self.window.in_flight();
        if in_flight > 0 && self.cc.allowance(in_flight) < bytes {
            return Err(Block::Own);
        }
        if room.budget < bytes { Err(Block::Budget) } else { Ok(()) }
    }

    /// The path of the next segment, with `len` bytes of payload, and whether it begins a train.
    pub(crate) fn take_path(
        &mut self,
        now: Time,
        psn: Psn,
        len: u16,
        paths: &mut PathSet,
        limit: TrainLimit,
    ) -> (PathId, bool) {
        let starts = self.train.left == 0;
        if starts {
            self.tell(now, paths);
            let room = limit.room(self.cc.allowance(0));
            let train = Train { now, psn: psn.wire(), segments: limit.full_segments(room) };
            let path = paths.pick(&mut self.paths, train);
            self.train = OpenTrain { path, left: limit.segments, room };
        }
        self.train.left -= 1;
        self.train.room = self.train.room.saturating_sub(Segment::wire_len(len));
        if self.train.room < limit.full_segment() {
            self.train.left = 0;
        }
        (self.train.path, starts)
    }

    /// The path of a packet that belongs to no train.
    pub(crate) fn single_path(&mut self, now: Time, paths: &mut PathSet) -> PathId {
        let psn = self.window.next().wire();
        paths.pick(&mut self.paths, Train { now, psn, segments: 1 })
    }

    pub(crate) fn train_has_ended(&self) -> bool {
        self.train.left == 0
    }

    /// Keeps the books of a segment that goes out. Returns whether it asks for an acknowledgement;
    /// `again`: it is a retransmission; `is_last`: nothing follows it for now. The path's turn goes on
    /// then: every path gets as many bytes, whatever the window lets out at a time.
    pub(crate) fn on_sent(&mut self, now: Time, len: u16, again: bool, is_last: bool) -> bool {
        if again {
            self.repeats.on_retransmission();
        }
        self.unasked += Segment::wire_len(len);
        self.unasked_segments += 1;
        let enough = self.unasked_segments >= MAX_ASK_SEGMENTS;
        let asks = is_last || enough || self.probes > 0 || self.unasked >= self.ask_interval;
        if enough && self.unasked <= SMALL_BURST {
            self.train.left = 0;
        }
        if asks {
            (self.unasked, self.unasked_segments) = (0, 0);
        }
        self.probes = self.probes.saturating_sub(1);
        self.deadline = Some(now + self.rtt.rto(u32::from(self.timeouts)));
        asks
    }

    /// Learns from an acknowledgement of this stream. `None`: it speaks of packets never sent.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack, paths: &mut PathSet) -> Option<Lesson> {
        let cumulative = Psn::expand(ack.cumulative, self.window.una());
        let delay = Duration::from_nanos(ack.delay_ns.into());
        let rtt = now.since_stamp(ack.stamp).saturating_sub(delay);
        let ecn_marks = self.new_marks(ack.ecn_marks);
        let overtaken = cumulative < self.window.una();
        let acked = if overtaken {
            Tally::default()
        } else {
            let mut credit = Credit::new(now, delay, rtt, ecn_marks > 0, &mut self.rtt);
            let echo = Echo { path: ack.path, stamp: ack.stamp };
            let acked =
                self.window.ack(cumulative, ack.bitmap.ones(), echo, |segment, certain| {
                    if certain {
                        self.detector.on_arrival(segment);
                    }
                    credit.take(segment, certain, paths, &mut self.paths);
                })?;
            credit.close(paths, &mut self.paths);
            acked
        };
        let spurious = self.repeats.on_duplicates(ack.duplicates);
        let mut lost = Tally::default();
        if !overtaken {
            let report = Report {
                now,
                cumulative,
                highest: Psn::expand(ack.highest, cumulative),
                spurious,
                rtt,
                reorder_time: self.rtt.reorder_time(),
                overdue: self.rtt.overdue(),
            };
            lost = self.lose(now, paths, |detector, window, lost| {
                detector.detect(&report, window, lost);
            });
        }
        if acked.packets > 0 {
            self.rtt.on_sample(rtt);
            self.on_progress(now);
        }
        self.cc.on_feedback(&Feedback {
            now,
            rtt,
            acked: acked.bytes,
            lost: lost.bytes,
            ecn_marks,
        });
        let (spurious, ecn_marks) = (spurious.into(), ecn_marks.into());
        Some(Lesson { lost: lost.packets, spurious, ecn_marks })
    }

    fn new_marks(&mut self, reported: u16) -> u32 {
        let marks = reported.wrapping_sub(self.ecn_marks);
        if marks > u16::MAX / 2 {
            return 0; // an overtaken ack
        }
        self.ecn_marks = reported;
        marks.into()
    }

    /// Has segments declared lost, and the paths hear of it.
    fn lose(
        &mut self,
        now: Time,
        paths: &mut PathSet,
        declare: impl FnOnce(&mut Detector, &mut Window, &mut dyn FnMut(&Segment)),
    ) -> Tally {
        let mut lost = Tally::default();
        let qp = &mut self.paths;
        declare(&mut self.detector, &mut self.window, &mut |segment| {
            lost.count(segment);
            paths.on_feedback(qp, now, segment.path, Outcome::Lost { packets: 1 });
        });
        if lost.packets > 0 {
            self.train.left = 0; // perhaps on a path that is dead
        }
        lost
    }

    /// Everything up to `psn` has arrived, as something else than an ack has shown.
    pub(crate) fn on_implied_ack(&mut self, now: Time, psn: Psn) {
        let arrived = |segment: &Segment| Outcome::Arrived {
            packets: 1,
            rtt: now - segment.sent_at,
            congested: false,
        };
        if self.imply(psn, arrived) {
            self.on_progress(now);
        }
    }

    /// As [`Outgoing::on_implied_ack`], of an answer that cannot be taken: the end is near.
    pub(crate) fn on_refused_answer(&mut self, psn: Psn) {
        self.imply(psn, |_| Outcome::Forgotten { packets: 1 });
    }

    fn imply(&mut self, psn: Psn, outcome: impl Fn(&Segment) -> Outcome) -> bool {
        if psn < self.window.una() {
            return false;
        }
        let (untold, no_echo) = (&mut self.untold, Echo { path: PathId::default(), stamp: 0 });
        let told = |segment: &Segment, _| untold.push((segment.path, outcome(segment)));
        self.window.ack(psn.plus(1), std::iter::empty(), no_echo, told).is_some()
    }

    fn on_progress(&mut self, now: Time) {
        self.timeouts = 0;
        self.probes = 0;
        self.deadline = (!self.window.is_empty()).then(|| now + self.rtt.rto(0));
    }

    /// The peer has refused a packet for good. What came before may still take it long to answer, and
    /// all that time the refused packets are not acknowledged; yet the peer is not silent.
    pub(crate) fn on_refused(&mut self) {
        self.timeouts = 0;
    }

    /// The peer had no receive for the message at `psn`. False: once too often.
    pub(crate) fn on_receiver_not_ready(
        &mut self,
        now: Time,
        psn: Psn,
        delay: Duration,
        retry: Option<u8>,
    ) -> bool {
        if psn < self.window.una() || self.paused_until.is_some() {
            return true;
        }
        if psn > self.resume_from {
            self.rnr_tries = 0;
        }
        self.rnr_tries += 1;
        self.resume_from = psn;
        self.paused_until = Some(now + delay);
        self.timeouts = 0;
        retry.is_none_or(|limit| self.rnr_tries <= u32::from(limit))
    }

    /// When [`Outgoing::on_timeout`] wants to be called.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.paused_until.or(self.deadline)
    }

    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        retry_count: u8,
        paths: &mut PathSet,
    ) -> Timeout {
        if let Some(until) = self.paused_until {
            return self.resume(now, until, paths);
        }
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Timeout::None;
        }
        if self.window.is_empty() {
            self.deadline = None;
            return Timeout::None;
        }
        self.timeouts += 1;
        if self.timeouts > retry_count {
            return Timeout::GiveUp;
        }
        paths.on_timeout(&mut self.paths, now);
        let lost =
            self.lose(now, paths, |detector, window, lost| detector.on_timeout(window, lost));
        self.probes = PROBES;
        self.deadline = Some(now + self.rtt.rto(u32::from(self.timeouts)));
        Timeout::Resend(lost.packets)
    }

    /// The pause that a "receiver not ready" asked for has ended: what it refused goes out again, and
    /// with it everything older that has not arrived. Refused packets are never acknowledged, so
    /// nothing else would show that those are lost.
    fn resume(&mut self, now: Time, until: Time, paths: &mut PathSet) -> Timeout {
        if now < until {
            return Timeout::None;
        }
        self.paused_until = None;
        let all = |_: &mut Detector, window: &mut Window, lost: &mut dyn FnMut(&Segment)| {
            window.lose_from(window.una(), usize::MAX, lost);
        };
        let lost = self.lose(now, paths, all);
        self.probes = 1;
        self.deadline = Some(now + self.rtt.rto(0));
        Timeout::Resend(lost.packets)
    }

    /// Gives up everything.
    pub(crate) fn clear(&mut self) {
        let forgotten = |segment: &Segment| (segment.path, Outcome::Forgotten { packets: 1 });
        self.untold.extend(self.window.in_flight_segments().map(forgotten));
        self.window.clear();
        self.deadline = None;
        self.paused_until = None;
        self.probes = 0;
    }

    /// Gives back room that is not needed while nothing is under way.
    pub(crate) fn trim(&mut self) {
        self.window.trim();
        self.detector.trim();
        self.untold.shrink_to(super::KEPT);
    }

    /// Tells the path set what became known while it was not at hand.
    fn tell(&mut self, now: Time, paths: &mut PathSet) {
        for (path, outcome) in self.untold.drain(..) {
            paths.on_feedback(&mut self.paths, now, path, outcome);
        }
    }

    /// The stream is gone.
    pub(crate) fn dismiss(&mut self, now: Time, paths: &mut PathSet) {
        self.clear();
        self.tell(now, paths);
        paths.dismiss(&self.paths);
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }
}
