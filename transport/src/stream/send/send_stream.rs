//! An outgoing stream: its window, its timers, and the conditions under which it may send.

use std::time::Duration;

use braid_lb::{Batch, Outcome, Rails, StreamId};
use braid_wire::{PathId, Psn, RailId, Time};

use super::ack_requests::AckRequests;
use super::congestion::Most;
use super::direct::{Direct, Placement};
use super::losses::Losses;
use super::next_segment::NextSegment;
use super::quantum::OpenBatch;
use super::receiver_not_ready::ReceiverNotReady;
use super::recovery::Detector;
use super::rto_clock::RtoClock;
use super::run::Run;
use super::segment::Segment;
use super::send_limits::{Block, Budget, Need, SendLimits};
use super::skipped_segments::SkipSchedule;
use super::source::Next;
use super::subflow::Candidate;
use super::subflows::Subflows;
use super::window::Window;
use crate::places::visit_value;
use crate::stream::marks::ReportedMarks;
use crate::stream::paws::Paws;
use crate::{QpConfig, Remote};

#[derive(Debug)]
pub(crate) struct SendStream {
    pub(crate) window: Window,
    pub(crate) paws: Paws,
    pub(crate) subflows: Subflows,
    pub(crate) losses: Losses,
    pub(crate) clock: RtoClock,
    pub(crate) rnr: ReceiverNotReady,
    /// Identifier of the stream in the path set.
    pub(crate) stream: StreamId,
    pub(crate) ack_requests: AckRequests,
    /// Bytes that the peer can buffer.
    pub(crate) peer_bytes: u64,
    pub(crate) marks: ReportedMarks,
    /// Direct placement of payloads, if the datapath supports it.
    pub(crate) direct: Option<Direct>,
    /// The next segment to send, as far as it is known.
    pub(crate) next_segment: NextSegment,
    /// The current run: segments in the window that were not handed out yet.
    pub(crate) run: Run,
    /// Schedule of skipped segments.
    pub(crate) skips: SkipSchedule,
}

/// Outcome of a timer's expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    /// No time-out: the timer is not due, nothing is outstanding, or a pause has ended.
    None,
    /// A retransmission time-out. This number of segments was declared lost.
    Resend(u64),
    /// The end of the stream is late, but this is no time-out (like a tail loss probe, RFC 8985,
    /// section 7). This number of segments was declared lost.
    Tail(u64),
    /// The peer was silent for too long, so the connection fails.
    GiveUp,
}

impl SendStream {
    pub(crate) fn new(
        config: &QpConfig,
        remote: &Remote,
        stream: StreamId,
        peer_bytes: u64,
        rails: usize,
    ) -> Self {
        let subflows = Subflows::new(config, remote, rails);
        let room = subflows.current().cc.window().min(peer_bytes);
        let segments = room / Segment::wire_len(remote.mtu);
        SendStream {
            window: Window::new(Psn(remote.send_psn.into())),
            paws: Paws::default(),
            subflows,
            losses: Losses::new(Detector::new(config, segments)),
            clock: RtoClock::default(),
            rnr: ReceiverNotReady::default(),
            stream,
            ack_requests: AckRequests::new(room, config.ask_every),
            peer_bytes,
            marks: ReportedMarks::default(),
            direct: None,
            next_segment: NextSegment::Unknown,
            run: Run::default(),
            skips: SkipSchedule::default(),
        }
    }

    /// Visits the places in memory of what is checked of a stream that has nothing to send.
    pub(crate) fn parts_of_idle(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit_value(&self.window, &mut visit);
        self.subflows.parts_of_idle(&mut visit);
        visit_value(&self.clock, &mut visit);
        visit_value(&self.rnr, &mut visit);
        visit_value(&self.next_segment, &mut visit);
        visit_value(&self.run, &mut visit);
    }

    /// Checks whether a segment with `len` bytes of payload may leave now. Returns the budget that
    /// it takes, or the reason why it may not. `lost`: its PSN if it was lost or released.
    #[inline]
    pub(crate) fn may_send(
        &mut self,
        now: Time,
        len: u16,
        lost: Option<Psn>,
        limits: &SendLimits<'_>,
        rails: &mut Rails,
    ) -> Result<Need, Block> {
        if self.rnr.paused_until.is_some_and(|until| now < until) {
            return Err(Block::Peer);
        }
        let fresh = lost.is_none();
        // Probes ignore the limits, so they have to be retransmissions. A released segment, which
        // would be a first transmission, serves as a probe only while the stream may send nothing
        // else.
        let only_probes = self.is_silent() || self.rnr.awaits_receiver;
        let may_probe = !fresh && (only_probes || lost != self.window.skipped());
        if may_probe && self.losses.probes.due > 0 {
            let before = lost.and_then(|psn| self.window.get(psn));
            let rail = before.map_or(self.subflows.rail(), |segment| segment.path.rail());
            self.subflows.take_live(rail, rails);
            return Ok(Need::new(self.subflows.rail(), 0));
        }
        if only_probes {
            return Err(Block::Peer);
        }
        if fresh && (self.window.has_refused() || self.window.span() >= u64::from(limits.window)) {
            return Err(Block::Peer);
        }
        if self.window.segments_in_flight() >= limits.segments {
            return Err(Block::Peer);
        }
        let candidate = Candidate { now, bytes: Segment::wire_len(len), is_fresh: fresh };
        self.subflows.choose(self.stream, candidate, self.window.in_flight(), limits, rails)
    }

    /// Number of new segments that may follow the one that has just left, regardless of their
    /// bytes. `None`: each segment is decided on individually.
    pub(crate) fn segments_behind(&self, window: u16, segments: u32) -> Option<u32> {
        if self.direct.is_some() {
            return None;
        }
        let tracked = u64::from(window).saturating_sub(self.window.span());
        let buffered = u64::from(segments.saturating_sub(self.window.segments_in_flight()));
        let skipped = self.skips.due_in(self.window.next());
        let paced = u64::from(self.subflows.current().cc.burst_left());
        let least = tracked.min(buffered).min(skipped).min(paced);
        u32::try_from(least).ok().filter(|segments| *segments > 0)
    }

    /// Whether the window is empty, and the last search found nothing to send.
    pub(crate) fn is_idle(&self) -> bool {
        self.window.is_empty() && matches!(self.next_segment, NextSegment::Blocked(Block::Nothing))
    }

    /// Whether nothing can leave before the next event, and the run is over.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self.next_segment, NextSegment::Blocked(_)) && self.run.is_over()
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.clock.is_silent()
    }

    /// Bytes in flight that the peer's receive buffer of a rail may hold. While the peer is silent
    /// or has no receive, single probes do not count. Otherwise they would use up the buffer for
    /// other queue pairs, and the missing receive may depend on their progress.
    pub(crate) fn in_flight(&self, rail: RailId) -> u64 {
        if self.is_silent() || self.rnr.awaits_receiver { 0 } else { self.window.under_way(rail) }
    }

    /// Records why nothing more leaves for now. Returns whether this releases the skipped segment:
    /// nothing else is in flight, and the next segment does not wait for pacing or for budget.
    pub(crate) fn on_blocked(&mut self, by: Block) -> bool {
        if self.subflows.on_blocked(by) {
            self.follow_window();
        }
        let releases = matches!(by, Block::Nothing | Block::Peer | Block::Window)
            && self.window.is_waiting_for_skipped();
        if releases {
            self.window.release();
        }
        releases
    }

    /// Time at which pacing permits the next segment; [`Time::FAR_FUTURE`]: pacing holds none back.
    pub(crate) fn paced_until(&self) -> Time {
        self.subflows.opens_at().unwrap_or(Time::FAR_FUTURE)
    }

    /// Whether pacing delays the next segment by more than a quarter of the retransmission
    /// time-out. A request for an acknowledgement in that segment would come too late for the last
    /// one.
    pub(crate) fn is_held_for_long(&self, now: Time) -> bool {
        self.subflows.opens_at().is_some_and(|at| at - now > self.subflows.rto(0) / 4)
    }

    /// Picks the path of a packet that belongs to no batch.
    pub(crate) fn single_path(&mut self, now: Time, rails: &mut Rails) -> PathId {
        let psn = self.window.next().wire();
        rails.pick_single(self.stream, Batch { now, psn, segments: 1 })
    }

    /// Picks a path of this rail for a packet that belongs to no batch.
    pub(crate) fn path_on(&mut self, now: Time, rail: RailId, rails: &mut Rails) -> PathId {
        let psn = self.window.next().wire();
        rails.pick(rail, self.stream, Batch { now, psn, segments: 1 })
    }

    pub(crate) fn quantum_has_ended(&self) -> bool {
        self.subflows.current().quantum.has_ended()
    }

    /// Charges the pacer for `segments` segments with `bytes` bytes on the wire. `most`: the limits
    /// of a burst.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, segments: u32, most: Most) {
        let subflow = self.subflows.current_mut();
        subflow.cc.on_sent(now, (bytes, segments), most, subflow.rtt.for_pacing());
    }

    /// Enters a transmission in the window: of the lost or released segment `lost`, or else of a
    /// new segment. Returns its PSN and its placement. `writes`: whether it carries payload of a
    /// WRITE.
    pub(crate) fn enter(
        &mut self,
        now: Time,
        next: Next,
        lost: Option<Psn>,
        path: PathId,
        writes: impl FnOnce() -> bool,
    ) -> (Psn, Placement) {
        self.next_segment = NextSegment::Unknown;
        let Some(psn) = lost else {
            let placement = match &mut self.direct {
                Some(direct) if writes() => direct.place_first(now, path, next.len),
                _ => Placement::PLAIN,
            };
            let direct = if let Placement::Direct(epoch) = placement { Some(epoch) } else { None };
            let psn = self.window.push(now, next, path, direct);
            self.paws.pass(now, self.window.una(), psn, now.stamp());
            self.subflows.current_mut().cc.on_entered(now, psn, Segment::wire_len(next.len));
            return (psn, placement);
        };
        let epoch = self.window.get(psn).and_then(Segment::epoch);
        if self.window.skipped() == Some(psn) {
            self.skips.resume(self.window.next());
        }
        self.window.resend(now, psn, path);
        let placement = match (&mut self.direct, epoch) {
            (Some(direct), Some(epoch)) => direct.place_again(now, epoch),
            _ => Placement::PLAIN,
        };
        (psn, placement)
    }

    /// Whether the next new segment is to be skipped.
    #[inline]
    pub(crate) fn skips_next(&self) -> bool {
        self.skips.is_due(self.window.next())
    }

    /// Enters a new segment in the window without sending it. Returns its PSN.
    pub(crate) fn skip(&mut self, now: Time, next: Next) -> Psn {
        self.next_segment = NextSegment::Unknown;
        let psn = self.window.skip(now, next);
        self.paws.pass(now, self.window.una(), psn, now.stamp());
        psn
    }

    /// Decides when the skipped segment is sent: later if another segment `follows` it, otherwise
    /// now.
    pub(crate) fn settle_skipped(&mut self, now: Time, psn: Psn, len: u16, follows: bool) {
        if follows {
            self.skips.suspend();
            self.subflows.set_apart(psn);
        } else {
            self.skips.redraw(psn);
            self.subflows.current_mut().cc.on_entered(now, psn, Segment::wire_len(len));
            self.window.release();
        }
    }

    /// Lets the skipped segment leave with the next transmission, if there is one.
    pub(crate) fn release_skipped(&mut self) {
        self.window.release();
        self.next_segment = NextSegment::Unknown;
    }

    /// Payload bytes of a full WRITE segment. `mtu`: those of other segments.
    pub(crate) fn write_mtu(&self, now: Time, mtu: u16) -> u16 {
        self.direct.as_ref().map_or(mtu, |direct| direct.segment_len(now, mtu))
    }

    /// Records that a segment for direct placement was sent staged.
    pub(crate) fn staged(&mut self, psn: u32) {
        self.next_segment = NextSegment::Unknown;
        let epoch = self.window.staged(Psn::expand(psn, self.window.una()));
        if let (Some(epoch), Some(direct)) = (epoch, &mut self.direct) {
            direct.was_staged(epoch);
        }
    }

    /// Counts a segment that leaves. Returns whether it requests an acknowledgement even if others
    /// follow. `again`: whether it is a retransmission. `left`: messages that wait behind it.
    /// `budget`: the budget that it leaves with.
    pub(crate) fn on_sent(
        &mut self,
        now: Time,
        len: u16,
        again: bool,
        left: usize,
        budget: &mut Budget<'_>,
    ) -> bool {
        if again {
            self.losses.spurious.on_retransmission();
        }
        let asks = self.asks_with(len, again, left, budget);
        self.losses.probes.due = self.losses.probes.due.saturating_sub(1);
        self.wait(now);
        asks
    }

    /// Whether a segment that leaves requests an acknowledgement even if others follow. Ends the
    /// quantum after half of a burst of small messages.
    pub(crate) fn asks_with(
        &mut self,
        len: u16,
        again: bool,
        left: usize,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.ack_requests.count(len);
        let segments_in_flight = self.window.segments_in_flight();
        let halves =
            self.ack_requests.halves_burst(len, segments_in_flight, left) && budget.is_alone();
        let subflow = self.subflows.current_mut();
        if halves {
            subflow.quantum.end();
            *budget.batch = OpenBatch::default();
        }
        let ends_chunk = !again && subflow.cc.ends_chunk();
        let asks =
            self.losses.probes.due > 0 || self.ack_requests.is_time() || ends_chunk || halves;
        if asks {
            self.ack_requests.ask();
        }
        asks
    }

    /// Records that nothing follows the last segment for now, so that it requests an
    /// acknowledgement. The batch ends, but the path's quantum continues. So all paths get the same
    /// number of bytes, however few the window permits at a time.
    pub(crate) fn on_last(&mut self) {
        self.ack_requests.ask();
        self.subflows.end_batch();
    }

    /// Discards all segments and stops all timers.
    pub(crate) fn clear(&mut self) {
        let forgotten = |segment: &Segment| (segment.path, Outcome::Forgotten { packets: 1 });
        self.losses.unreported.extend(self.window.in_flight_segments().map(forgotten));
        self.window.clear();
        self.forget_probe();
        self.losses.forget_suspects();
        self.subflows.forget();
        self.clock.deadline = None;
        self.rnr.paused_until = None;
        self.rnr.awaits_receiver = false;
        self.losses.probes.due = 0;
        self.on_blocked(Block::Nothing);
    }

    /// Releases unused memory while nothing is in flight.
    pub(crate) fn trim(&mut self) {
        self.window.trim();
        self.losses.trim();
    }

    /// Ends the stream and removes it from the path set.
    pub(crate) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        self.clear();
        self.losses.report(self.stream, now, rails);
        rails.dismiss(self.stream);
    }

    /// The retransmission time-out, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.subflows.rto(u32::from(self.clock.timeouts))
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.subflows.smoothed_rtt()
    }
}
