//! The subflows of a stream. For each chunk the rail policy decides which of them carries it.

use std::time::Duration;

use braid_cc::Spurious;
use braid_lb::{RailSet, Rails, StreamId};
use braid_wire::{PathId, Psn, RailId, Time};

use super::chunks::ChunkAck;
use super::rtt::Rtt;
use super::segment::Segment;
use super::send_limits::{Block, Need, SendLimits};
use super::subflow::{Candidate, Subflow};
use crate::places::visit_value;
use crate::stream::marks::MarkWatch;
use crate::stream::per_rail::RailBytes;
use crate::{QpConfig, Remote};

/// Bytes that a stream sends on a rail before another is picked: the largest batch of a datapath,
/// and a message of MCC (section 4).
const CHUNK: u64 = 64 << 10;

/// The subflows by rail. The first is a field of its own, because most connections have one rail
/// and each packet accesses its subflow several times.
#[derive(Debug)]
pub(crate) struct Subflows {
    first: Subflow,
    further: Vec<Subflow>,
    /// The rail of the present chunk.
    current: RailId,
    /// Bytes that the present chunk still takes.
    left: u64,
    /// The last segment left on another rail.
    has_moved: bool,
    /// The rails whose rate held the next segment back when it was last tried.
    rate_limited: RailSet,
    /// A segment that belongs to no controller's chunk.
    apart: Option<Psn>,
}

impl Subflows {
    pub(crate) fn new(config: &QpConfig, remote: &Remote, rails: usize) -> Self {
        Subflows {
            first: Subflow::new(config, remote),
            further: (1..rails).map(|_| Subflow::new(config, remote)).collect(),
            current: RailId::FIRST,
            left: 0,
            has_moved: false,
            rate_limited: RailSet::default(),
            apart: None,
        }
    }

    /// Visits the places in memory of what is checked of subflows that have nothing to send.
    pub(crate) fn parts_of_idle(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit_value(&self.first.cc, &mut visit);
        visit_value(&self.further, &mut visit);
    }

    pub(crate) fn count(&self) -> usize {
        1 + self.further.len()
    }

    fn all(&self) -> impl Iterator<Item = &Subflow> {
        std::iter::once(&self.first).chain(&self.further)
    }

    pub(crate) fn by_rail(&self) -> impl Iterator<Item = (RailId, &Subflow)> {
        self.all().enumerate().map(|(index, subflow)| (RailId::new(index), subflow))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Subflow> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    #[inline]
    pub(crate) fn at(&self, rail: RailId) -> &Subflow {
        match rail.get() {
            0 => &self.first,
            rail => &self.further[rail - 1],
        }
    }

    /// The subflow of a path; `None`: a path from the network may be unknown.
    #[inline]
    pub(crate) fn of(&mut self, path: PathId) -> Option<&mut Subflow> {
        match path.rail().get() {
            0 => Some(&mut self.first),
            rail => self.further.get_mut(rail - 1),
        }
    }

    /// The subflow of a rail; `None`: the rail of a packet may be unknown.
    pub(crate) fn on_rail_mut(&mut self, rail: RailId) -> Option<&mut Subflow> {
        self.of(PathId::default().on(rail))
    }

    /// Returns the first subflow that has to request credit, and its rail.
    pub(crate) fn asking_for_credit(&mut self, now: Time) -> Option<(RailId, &mut Subflow)> {
        let mut all = self.all_mut().enumerate();
        let (index, subflow) = all.find(|(_, subflow)| subflow.cc.asks_for_credit(now))?;
        Some((RailId::new(index), subflow))
    }

    /// The rail of the present chunk.
    #[inline]
    pub(crate) fn rail(&self) -> RailId {
        self.current
    }

    /// The subflow of the present chunk.
    #[inline]
    pub(crate) fn current(&self) -> &Subflow {
        self.at(self.current)
    }

    #[inline]
    pub(crate) fn current_mut(&mut self) -> &mut Subflow {
        match self.current.get() {
            0 => &mut self.first,
            rail => &mut self.further[rail - 1],
        }
    }

    /// Whether a segment may leave now. Returns the budget that it takes, and makes its rail the
    /// current one.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        stream: StreamId,
        candidate: Candidate,
        in_flight: &RailBytes,
        limits: &SendLimits<'_>,
        rails: &mut Rails,
    ) -> Result<Need, Block> {
        let rail = self.current;
        if self.further.is_empty() {
            return self.first.takes(rail, candidate, in_flight[rail], limits);
        }
        let open = rails.open();
        let goes_on =
            (self.left > 0 || !self.current().quantum.begins_batch()) && open.contains(rail);
        if goes_on && let Ok(need) = self.current().takes(rail, candidate, in_flight[rail], limits)
        {
            return Ok(need);
        }
        self.pick(stream, candidate, in_flight, limits, rails)
    }

    /// Begins a chunk, if some rail is open. This function is out of line because most connections
    /// have one rail.
    #[inline(never)]
    fn pick(
        &mut self,
        stream: StreamId,
        candidate: Candidate,
        in_flight: &RailBytes,
        limits: &SendLimits<'_>,
        rails: &mut Rails,
    ) -> Result<Need, Block> {
        let (mut open, mut rate_limited) = (RailSet::default(), RailSet::default());
        let mut blocked = Block::Peer;
        for rail in rails.open().iter() {
            match self.at(rail).takes(rail, candidate, in_flight[rail], limits) {
                Ok(_) => open.insert(rail),
                Err(Block::CreditRequest) => return Err(Block::CreditRequest),
                Err(block) => {
                    blocked = blocked.or(block, limits);
                    if block == Block::Rate {
                        rate_limited.insert(rail);
                    }
                }
            }
        }
        self.rate_limited = rate_limited;
        if open.is_empty() {
            return Err(blocked);
        }
        let rail = rails.pick_rail(stream, open);
        let need = self.at(rail).takes(rail, candidate, in_flight[rail], limits)?;
        self.begin_chunk(rail);
        Ok(need)
    }

    /// Makes the retransmission of a segment that left on the rail `before` take the next rail in
    /// use, regardless of the windows. A turn shared with other segments could keep step with them,
    /// so that the retransmission would never take a rail that works.
    pub(crate) fn take_live(&mut self, before: RailId, rails: &Rails) {
        if !self.further.is_empty() {
            self.begin_chunk(rails.next_live_after(before));
        }
    }

    #[inline(never)]
    fn begin_chunk(&mut self, rail: RailId) {
        if rail != self.current {
            // For the driver, segments on another rail are another batch. For a controller, a chunk
            // has no gaps.
            let before = self.current_mut();
            before.quantum.end_batch();
            before.cc.end_chunk();
            self.has_moved = true;
        }
        (self.current, self.left) = (rail, CHUNK);
    }

    /// Counts a segment sent on the current rail. Returns whether the one before it left on another
    /// rail.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) -> bool {
        self.left = self.left.saturating_sub(bytes);
        std::mem::take(&mut self.has_moved)
    }

    /// Excludes a segment from all chunks, because it is sent later than its neighbours.
    pub(crate) fn set_apart(&mut self, psn: Psn) {
        self.apart = Some(psn);
    }

    /// Reports the first acknowledgement of a segment to the controllers that follow chunks. The
    /// segment may have been retransmitted on another rail than its chunk's.
    pub(crate) fn on_acked(&mut self, psn: Psn, arrival: ChunkAck) {
        if self.apart != Some(psn) {
            self.all_mut().any(|subflow| subflow.cc.on_acked(psn, arrival));
        }
    }

    /// Reports complete chunks to the controllers.
    pub(crate) fn report_chunks(&mut self) {
        for subflow in self.all_mut() {
            subflow.cc.report_chunks();
        }
    }

    /// Records why nothing more leaves for now. Returns whether an event was reported to a
    /// controller.
    pub(crate) fn on_blocked(&mut self, by: Block) -> bool {
        if self.further.is_empty() {
            return self.first.cc.on_blocked(by);
        }
        self.on_all_blocked(by)
    }

    #[inline(never)]
    fn on_all_blocked(&mut self, by: Block) -> bool {
        let (mut told, rate_limited) = (false, self.rate_limited);
        for (index, subflow) in self.all_mut().enumerate() {
            let waits = rate_limited.contains(RailId::new(index));
            let by = if by == Block::Rate && !waits { Block::Window } else { by };
            told |= subflow.cc.on_blocked(by);
        }
        told
    }

    /// Reports losses to the controllers, if there are any.
    pub(crate) fn report_lost(&mut self, now: Time) {
        self.all_mut().for_each(|subflow| subflow.report_lost(now));
    }

    /// Reports losses of which the network informs to the controllers.
    pub(crate) fn report_trimmed(&mut self, now: Time) {
        self.all_mut().for_each(|subflow| subflow.report_trimmed(now));
    }

    /// Reports to all controllers that segments declared lost were late. Their rails are not known;
    /// a controller without recent losses ignores this.
    pub(crate) fn report_spurious(&mut self, now: Time, packets: u32) {
        let spurious = Spurious { now, packets: packets.into() };
        self.all_mut().for_each(|subflow| subflow.report_spurious(&spurious));
    }

    /// Reports a time-out to the controllers with bytes in flight, or to all if none has any.
    pub(crate) fn on_timeout(&mut self, now: Time, in_flight: &RailBytes) {
        let nothing = in_flight.total() == 0;
        for (index, subflow) in self.all_mut().enumerate() {
            if nothing || in_flight[RailId::new(index)] > 0 {
                subflow.cc.on_timeout(now);
            }
        }
        self.left = 0;
    }

    /// Reads the controllers' windows after an event was reported to them. Returns the smallest
    /// window if any has changed.
    pub(crate) fn ask(&mut self) -> Option<u64> {
        let mut changed = false;
        self.all_mut().for_each(|subflow| changed |= subflow.cc.ask());
        if changed { self.all().map(|subflow| subflow.cc.window()).min() } else { None }
    }

    /// Whether the controllers send by credit of the receiver: all of them do, or none.
    #[inline]
    pub(crate) fn use_credit(&self) -> bool {
        self.first.cc.uses_credit()
    }

    /// Handles that all segments are acknowledged.
    #[cold]
    pub(crate) fn on_all_acked(&mut self) {
        self.all_mut().for_each(|subflow| subflow.cc.on_all_acked());
    }

    /// Time at which a rate permits the next segment, if one is held back.
    pub(crate) fn opens_at(&self) -> Option<Time> {
        self.all().filter_map(|subflow| subflow.cc.opens_at()).min()
    }

    /// Drops the segments in flight, because they will not be acknowledged.
    pub(crate) fn forget(&mut self) {
        self.all_mut().for_each(|subflow| subflow.cc.forget());
    }

    /// The retransmission time-out after `backoff` time-outs in a row. The slowest rail counts,
    /// because the missing acknowledgement may come by any.
    #[inline]
    pub(crate) fn rto(&self, backoff: u32) -> Duration {
        self.longest(|rtt| rtt.rto(backoff))
    }

    /// See [`Rtt::reorder_time`].
    pub(crate) fn reorder_time(&self) -> Duration {
        self.longest(Rtt::reorder_time)
    }

    /// See [`Rtt::overdue`].
    pub(crate) fn overdue(&self) -> Duration {
        self.longest(Rtt::overdue)
    }

    /// See [`Rtt::late`], of the slowest rail. `None`: no round trip is known.
    pub(crate) fn late(&self, longest: Duration) -> Option<Duration> {
        self.all().filter_map(|subflow| subflow.rtt.late(longest)).max()
    }

    /// See [`Rtt::tail_delay`].
    #[inline]
    pub(crate) fn tail_delay(&self) -> Option<Duration> {
        self.all().find_map(|subflow| subflow.rtt.tail_delay())
    }

    /// See [`Rtt::longest_wait`].
    pub(crate) fn longest_wait(&self) -> Duration {
        self.longest(Rtt::longest_wait)
    }

    #[inline(always)] // the time-out is read for each segment
    fn longest(&self, time: impl Fn(&Rtt) -> Duration) -> Duration {
        let first = time(&self.first.rtt);
        if self.further.is_empty() {
            return first;
        }
        self.further.iter().map(|subflow| time(&subflow.rtt)).fold(first, Duration::max)
    }

    /// The shortest smoothed round-trip time of all rails.
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.all().filter_map(|subflow| subflow.rtt.smoothed()).min()
    }

    /// Counts a segment that was declared lost. See [`Subflow::on_lost`].
    pub(crate) fn on_lost(&mut self, segment: &Segment, is_in_use: bool) {
        if let Some(subflow) = self.of(segment.path) {
            subflow.on_lost(segment, is_in_use);
        }
    }

    /// Replaces the controllers of these rails by new ones.
    pub(crate) fn restart_controllers(&mut self, rails: RailSet, config: &QpConfig, of: &Remote) {
        for (index, subflow) in self.all_mut().enumerate() {
            if rails.contains(RailId::new(index)) {
                subflow.cc.restart(config, of);
            }
        }
    }

    /// Resets the observation of congestion marks.
    pub(crate) fn watch_marks_anew(&mut self) {
        self.all_mut().for_each(|subflow| subflow.marks = MarkWatch::default());
    }

    /// Ends the batch: the next segment begins another.
    pub(crate) fn end_batch(&mut self) {
        self.current_mut().quantum.end_batch();
    }
}
