//! One outgoing stream: its window, its clockwork, and when it may send.

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
use crate::stream::marks::HeardMarks;
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
    /// Its name in the path set.
    pub(crate) stream: StreamId,
    pub(crate) ack_requests: AckRequests,
    /// Bytes that the peer can hold.
    pub(crate) peer_bytes: u64,
    pub(crate) marks: HeardMarks,
    /// Where a NIC may place payloads unseen.
    pub(crate) direct: Option<Direct>,
    /// The segment that leaves next.
    pub(crate) next_segment: NextSegment,
    /// Segments that were decided on and not handed out yet.
    pub(crate) run: Run,
    /// Which segments leave late.
    pub(crate) skips: SkipSchedule,
}

/// Meaning of an expired timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    /// Not due.
    None,
    /// Something is to be resent: so many segments count as lost.
    Resend(u64),
    /// The same, without a time-out: the end of what there was to send is late.
    Tail(u64),
    /// The peer has not answered for too long.
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
            marks: HeardMarks::default(),
            direct: None,
            next_segment: NextSegment::Unknown,
            run: Run::default(),
            skips: SkipSchedule::default(),
        }
    }

    /// Whether a segment with `len` bytes of payload may leave now. Returns the budget that it
    /// takes. `lost`: its PSN if it was lost or released.
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
        // A peer that receives nothing gets no first transmission beyond its limits, unless there
        // is nothing else to probe with.
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
        if self.window.flying() >= limits.segments {
            return Err(Block::Peer);
        }
        let candidate = Candidate { now, bytes: Segment::wire_len(len), is_fresh: fresh };
        self.subflows.choose(self.stream, candidate, self.window.in_flight(), limits, rails)
    }

    /// Number of new segments that may follow the one that has just left, whatever bytes they have.
    /// `None`: each is decided on by itself.
    pub(crate) fn segments_behind(&self, window: u16, segments: u32) -> Option<u32> {
        if self.direct.is_some() {
            return None;
        }
        let tracked = u64::from(window).saturating_sub(self.window.span());
        let buffered = u64::from(segments.saturating_sub(self.window.flying()));
        let skipped = self.skips.due_in(self.window.next());
        let paced = u64::from(self.subflows.current().cc.burst_left());
        let least = tracked.min(buffered).min(skipped).min(paced);
        u32::try_from(least).ok().filter(|segments| *segments > 0)
    }

    /// Whether nothing is in flight, and nothing was left to send when it was last looked at.
    pub(crate) fn is_idle(&self) -> bool {
        self.window.is_empty() && matches!(self.next_segment, NextSegment::Blocked(Block::Nothing))
    }

    /// Whether nothing leaves before something happens, and no segment of a run is left.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self.next_segment, NextSegment::Blocked(_)) && self.run.is_over()
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.clock.is_silent()
    }

    /// Bytes in flight that the peer's receive buffer of a rail may hold. While the peer is silent
    /// or has no receive, single probes do not count. Otherwise they would take the buffer from
    /// other queue pairs, and the receive may wait for those.
    pub(crate) fn in_flight(&self, rail: RailId) -> u64 {
        if self.is_silent() || self.rnr.awaits_receiver { 0 } else { self.window.under_way(rail) }
    }

    /// Notes that nothing more leaves for now. Returns whether that releases the skipped segment:
    /// nothing else is in flight, and neither time nor other streams hold up what follows it.
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

    /// When the rate lets out what it holds back; [`Time::FAR_FUTURE`]: it holds nothing back.
    pub(crate) fn paced_until(&self) -> Time {
        self.subflows.opens_at().unwrap_or(Time::FAR_FUTURE)
    }

    /// Whether the next segment comes too late to ask for this one's acknowledgement too.
    pub(crate) fn is_held_for_long(&self, now: Time) -> bool {
        self.subflows.opens_at().is_some_and(|at| at - now > self.subflows.rto(0) / 4)
    }

    /// The path of a packet that belongs to no batch.
    pub(crate) fn single_path(&mut self, now: Time, rails: &mut Rails) -> PathId {
        let psn = self.window.next().wire();
        rails.pick_single(self.stream, Batch { now, psn, segments: 1 })
    }

    /// The same, of this rail.
    pub(crate) fn path_on(&mut self, now: Time, rail: RailId, rails: &mut Rails) -> PathId {
        let psn = self.window.next().wire();
        rails.pick(rail, self.stream, Batch { now, psn, segments: 1 })
    }

    pub(crate) fn quantum_has_ended(&self) -> bool {
        self.subflows.current().quantum.has_ended()
    }

    /// Takes the share of the rate for segments with so many bytes on the wire. `most`: the limits
    /// of a burst.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, segments: u32, most: Most) {
        let subflow = self.subflows.current_mut();
        subflow.cc.on_sent(now, (bytes, segments), most, subflow.rtt.for_pacing());
    }

    /// Enters a transmission in the window: of the segment that was lost or released at `lost`,
    /// otherwise of a new one. Returns its PSN and where its payload may go. `writes`: whether it
    /// is the payload of a WRITE.
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

    /// Whether the next segment that would leave for the first time is to be skipped.
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

    /// The segment that was skipped last is sent later, if there is one that `follows`, else now.
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

    /// Payload bytes of a full segment of a WRITE, where others have `mtu`.
    pub(crate) fn write_mtu(&self, now: Time, mtu: u16) -> u16 {
        self.direct.as_ref().map_or(mtu, |direct| direct.segment_len(now, mtu))
    }

    /// A segment that was to be placed directly was sent staged.
    pub(crate) fn staged(&mut self, psn: u32) {
        self.next_segment = NextSegment::Unknown;
        let epoch = self.window.staged(Psn::expand(psn, self.window.una()));
        if let (Some(epoch), Some(direct)) = (epoch, &mut self.direct) {
            direct.was_staged(epoch);
        }
    }

    /// Counts a segment that leaves. Returns whether it asks for an acknowledgement, whatever
    /// follows it. `again`: it is a retransmission; `left`: messages that wait behind it; `budget`:
    /// the budget that it leaves with.
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

    /// Whether a segment that leaves asks for an acknowledgement, whatever follows it.
    pub(crate) fn asks_with(
        &mut self,
        len: u16,
        again: bool,
        left: usize,
        budget: &mut Budget<'_>,
    ) -> bool {
        self.ack_requests.count(len);
        let flying = self.window.flying();
        let halves = budget.is_alone && self.ack_requests.halves_burst(len, flying, left);
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

    /// Notes that nothing follows the last segment for now, which asks for an acknowledgement. The
    /// path's quantum goes on: every path gets as many bytes, whatever the window lets out at a
    /// time.
    pub(crate) fn on_last(&mut self) {
        self.ack_requests.ask();
        self.subflows.end_batch();
    }

    /// Gives up everything.
    pub(crate) fn clear(&mut self) {
        let forgotten = |segment: &Segment| (segment.path, Outcome::Forgotten { packets: 1 });
        self.losses.untold.extend(self.window.in_flight_segments().map(forgotten));
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

    /// Gives back room that is not needed while nothing is under way.
    pub(crate) fn trim(&mut self) {
        self.window.trim();
        self.losses.trim();
    }

    /// The stream is gone.
    pub(crate) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        self.clear();
        self.losses.report(self.stream, now, rails);
        rails.dismiss(self.stream);
    }

    /// The retransmission time-out, backed off.
    pub(crate) fn rto(&self) -> Duration {
        self.subflows.rto(u32::from(self.clock.timeouts))
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.subflows.smoothed_rtt()
    }
}
