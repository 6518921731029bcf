//! One outgoing stream: its window, its clockwork, and when it may send.

use std::time::Duration;

use braid_cc::{Cc, Controller, Feedback};
use braid_lb::{Outcome, PathSet, QpPaths, Selector};
use braid_wire::{Ack, PathId, Psn, Time};

use super::patience::Patience;
use super::rtt::Rtt;
use super::window::{Acked, Segment, Window};
use crate::QpConfig;

/// Time-outs resend this many of the oldest segments; their acknowledgement tells what else is lost.
const PROBES: u8 = 2;
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
    patience: Patience,
    cc: Cc,
    paths: QpPaths,
    train: Train,
    /// Time-outs in a row without progress.
    timeouts: u8,
    deadline: Option<Time>,
    /// Retransmissions that go out whatever the windows say.
    probes: u8,
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
struct Train {
    path: PathId,
    left: u32,
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
    /// Something is to be resent.
    Resend,
    /// The peer has not answered for too long.
    GiveUp,
}

impl Outgoing {
    pub(crate) fn new(config: &QpConfig, first: Psn, paths: QpPaths, peer_bytes: u64) -> Self {
        let cc = Cc::new(config.cc);
        let room = cc.allowance(0).min(peer_bytes);
        Outgoing {
            window: Window::new(first),
            rtt: Rtt::new(config.min_rto, config.max_rto),
            patience: Patience::new(),
            cc,
            paths,
            train: Train::default(),
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

    /// The path of the next segment, and whether it begins a train.
    pub(crate) fn take_path(&mut self, paths: &mut PathSet, train_segments: u32) -> (PathId, bool) {
        let starts = self.train.left == 0;
        if starts {
            self.train =
                Train { path: paths.pick(&mut self.paths, train_segments), left: train_segments };
        }
        self.train.left -= 1;
        (self.train.path, starts)
    }

    pub(crate) fn train_has_ended(&self) -> bool {
        self.train.left == 0
    }

    /// Keeps the books of a segment that goes out. Returns whether it asks for an acknowledgement;
    /// `again`: it is a retransmission; `is_last`: nothing follows it, so its train ends with it.
    pub(crate) fn on_sent(&mut self, now: Time, len: u16, again: bool, is_last: bool) -> bool {
        if again {
            self.patience.on_retransmission();
        }
        self.unasked += Segment::wire_len(len);
        self.unasked_segments += 1;
        let enough = self.unasked_segments >= MAX_ASK_SEGMENTS;
        let asks = is_last || enough || self.probes > 0 || self.unasked >= self.ask_interval;
        if is_last || (enough && self.unasked <= SMALL_BURST) {
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
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        threshold: u64,
        paths: &mut PathSet,
    ) -> Option<()> {
        let cumulative = Psn::expand(ack.cumulative, self.window.una());
        let acked = if cumulative < self.window.una() {
            Acked::default() // overtaken by a later ack
        } else {
            self.window.ack(cumulative, ack.bitmap.ones())?
        };
        let rtt =
            now.since_stamp(ack.stamp).saturating_sub(Duration::from_nanos(ack.delay_ns.into()));
        self.patience.on_duplicates(now, ack.duplicates, rtt);
        let lost = self.detect_lost(now, threshold, paths);
        if acked.packets > 0 {
            self.rtt.on_sample(rtt);
            self.on_progress(now);
        }
        let marks = ack.ecn_marks.wrapping_sub(self.ecn_marks);
        let marks = if marks > u16::MAX / 2 { 0 } else { marks };
        self.ecn_marks = self.ecn_marks.wrapping_add(marks);
        paths.on_feedback(ack.path, Outcome::Arrived { rtt, congested: marks > 0 });
        let (acked, lost, ecn_marks) = (acked.bytes, lost.bytes, marks.into());
        self.cc.on_feedback(&Feedback { now, rtt, acked, lost, ecn_marks });
        Some(())
    }

    /// Everything up to `psn` has arrived, as something else than an ack has shown.
    pub(crate) fn on_implied_ack(&mut self, now: Time, psn: Psn) {
        if psn >= self.window.una() && self.window.ack(psn.plus(1), std::iter::empty()).is_some() {
            self.on_progress(now);
        }
    }

    fn on_progress(&mut self, now: Time) {
        self.timeouts = 0;
        self.probes = 0;
        self.deadline = (!self.window.is_empty()).then(|| now + self.rtt.rto(0));
    }

    fn detect_lost(&mut self, now: Time, threshold: u64, paths: &mut PathSet) -> Acked {
        let factor = self.patience.factor();
        let late = self.rtt.reorder_time() * factor;
        let threshold = threshold * u64::from(factor);
        let lost = self.window.detect(|segment, overtaken_by| {
            let lost = overtaken_by >= threshold || now - segment.sent_at > late;
            if lost {
                paths.on_feedback(segment.path, Outcome::Lost);
            }
            lost
        });
        if lost.packets > 0 {
            self.patience.on_recovery();
        }
        lost
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

    pub(crate) fn on_timeout(&mut self, now: Time, retry_count: u8) -> Timeout {
        if let Some(until) = self.paused_until {
            return self.resume(now, until);
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
        self.window.lose_oldest(usize::from(PROBES));
        self.probes = PROBES;
        self.deadline = Some(now + self.rtt.rto(u32::from(self.timeouts)));
        Timeout::Resend
    }

    /// The pause that a "receiver not ready" asked for has ended: what it refused goes out again, and
    /// with it everything older that has not arrived. Refused packets are never acknowledged, so
    /// nothing else would show that those are lost.
    fn resume(&mut self, now: Time, until: Time) -> Timeout {
        if now < until {
            return Timeout::None;
        }
        self.paused_until = None;
        self.window.lose_from(self.window.una());
        self.probes = 1;
        self.deadline = Some(now + self.rtt.rto(0));
        Timeout::Resend
    }

    /// Gives up everything.
    pub(crate) fn clear(&mut self) {
        self.window.clear();
        self.deadline = None;
        self.paused_until = None;
        self.probes = 0;
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }
}
