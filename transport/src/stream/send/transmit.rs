//! The next segment of a stream: a lost or released one, or a new one and a run behind it.
//!
//! Many conditions decide whether a segment may leave, and they hold for the new segments behind it
//! as well. So the stream determines once how many segments may follow, and enters them in the
//! window together. They are handed out one by one; meanwhile the stream keeps its turn.

use braid_lb::{Batch, Rails};
use braid_wire::{PathId, Psn, Time};

use super::congestion::Most;
use super::direct::Placement;
use super::next_segment::{Choice, NextSegment};
use super::quantum::{BatchLimit, OpenBatch, Quantum};
use super::recovery::report::PROBES;
use super::run::Run;
use super::segment::Segment;
use super::send_limits::{Block, Budget, Need, SendLimits};
use super::send_stream::SendStream;
use super::source::{Limits, Next, Source};
use crate::stream::per_rail::RailPayloads;
use crate::{Followers, Remote};

/// The circumstances of a poll for a segment.
#[derive(Debug)]
pub(crate) struct PollContext<'a> {
    pub(crate) now: Time,
    /// The peer's end, with its limits.
    pub(crate) remote: &'a Remote,
    /// Payload bytes of the longest segment that each rail carries.
    pub(crate) path_mtu: &'a RailPayloads,
    pub(crate) batches: BatchLimit,
    /// Whether only work requests that were begun may continue (state SQD).
    pub(crate) is_draining: bool,
    pub(crate) rails: &'a mut Rails,
    pub(crate) budget: Budget<'a>,
}

/// Segments that leave now: one, and those that continue its message.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) next: Next,
    pub(crate) psn: Psn,
    pub(crate) followers: Followers,
    /// Whether this is a retransmission.
    pub(crate) again: bool,
    /// Whether the first segment requests an acknowledgement.
    pub(crate) asks: bool,
    pub(crate) path: PathId,
    pub(crate) batch_start: bool,
    pub(crate) placement: Placement,
}

/// Upper limits of a run.
#[derive(Clone, Copy, Debug)]
struct Reach {
    segments: u32,
    /// Bytes on the wire.
    bytes: u64,
    /// Payload bytes of a segment.
    payload: u16,
}

impl SendStream {
    /// Decides on the next segment and enters it in the window, with the run behind it.
    pub(crate) fn poll_segment(
        &mut self,
        queue: &mut impl Source,
        context: &mut PollContext<'_>,
    ) -> Result<Departure, Block> {
        let Choice { next, lost, .. } = loop {
            let choice = self.choose(queue, context)?;
            if choice.lost.is_some() || !self.skips_next() {
                break choice;
            }
            self.skip_next(queue, context, choice.next);
        };
        let now = context.now;
        let psn = lost.unwrap_or(self.window.next());
        let released = lost.is_some() && lost == self.window.skipped();
        let again = lost.is_some() && !released;
        let (path, batch_start) = self.take_path(psn, next.len, context);
        context.rails.on_sent(path, 1, again);
        // Pacing does not delay probes, so the pacer is not charged for them. Otherwise the probes
        // of many time-outs would delay later segments for long.
        if !again || self.losses.probes.due == 0 {
            let in_flight = context.budget.in_flight[path.rail()];
            let most = Most { batch: context.batches.segments(), in_flight };
            self.pace(now, Segment::wire_len(next.len), 1, most);
        }
        let (psn, placement) = self.enter(now, next, lost, path, || queue.is_write(next));
        let left = if lost.is_none() { queue.left_behind() } else { 0 };
        let asks = self.on_sent(now, next.len, again, left, &mut context.budget) || released;
        if lost.is_none() {
            queue.advance(next, next.len.into(), psn, psn);
        }
        context.budget.left.spent = Need::new(path.rail(), Segment::wire_len(next.len));
        let mut run = Run { next: psn.plus(1), path, ..Run::default() };
        if !asks && lost.is_none() && !queue.is_used_up() {
            self.extend_run(queue, context, &mut run);
        }
        run.asks |= self.is_last(queue, context) || asks;
        self.run = run;
        let asks = run.asks && run.is_over();
        let followers = self.take_followers(next, context.batches.followers());
        Ok(Departure { next, psn, followers, again, asks, path, batch_start, placement })
    }

    /// Returns the path of the next segment, with `len` bytes of payload, and whether the segment
    /// begins a batch or joins the batch of another queue pair.
    #[inline]
    fn take_path(&mut self, psn: Psn, len: u16, context: &mut PollContext<'_>) -> (PathId, bool) {
        if self.losses.probes.due > 0 && self.clock.timeouts > 0 {
            return (self.take_probe_path(psn, len, context), true);
        }
        let (limit, open) = (context.batches, &mut *context.budget.batch);
        let starts = self.quantum_has_ended();
        if starts {
            self.start_quantum(psn, context.now, limit, context.rails);
        }
        let has_moved = self.subflows.on_sent(Segment::wire_len(len));
        let quantum = &mut self.subflows.current_mut().quantum;
        let before = quantum.path();
        let begins = starts || has_moved || quantum.begins_batch();
        quantum.share(*open, len);
        quantum.join(len, limit);
        *open = quantum.batch();
        (quantum.path(), begins || quantum.path() != before)
    }

    /// Returns the path of a segment that a time-out retransmits, which is a batch of its own.
    ///
    /// The last segments before a time-out left on a path that does not work, or they would have
    /// been acknowledged. So their quantum ends, and so does the preference of the path policy. The
    /// first retransmission takes the path that has proved last that it works.
    #[cold]
    fn take_probe_path(&mut self, psn: Psn, len: u16, context: &mut PollContext<'_>) -> PathId {
        self.losses.report(self.stream, context.now, context.rails);
        self.subflows.on_sent(Segment::wire_len(len));
        self.subflows.current_mut().quantum.end();
        *context.budget.batch = OpenBatch::default();
        let rail = self.subflows.rail();
        let batch = Batch { now: context.now, psn: psn.wire(), segments: 1 };
        let is_first = self.clock.timeouts == 1 && self.losses.probes.due == PROBES;
        match is_first {
            true => context.rails.pick_proved(rail, self.stream, batch),
            false => context.rails.pick_any(rail, self.stream, batch),
        }
    }

    /// Picks the path of the next quantum.
    fn start_quantum(&mut self, psn: Psn, now: Time, limit: BatchLimit, rails: &mut Rails) {
        self.losses.report(self.stream, now, rails);
        let (rail, subflow) = (self.subflows.rail(), self.subflows.current_mut());
        let room = limit.room(subflow.cc.window_in_use(), rails.requirements().quanta);
        let batch = Batch { now, psn: psn.wire(), segments: limit.full_segments(room) };
        let path = rails.pick(rail, self.stream, batch);
        subflow.quantum = match rails.most_segments(rail) {
            Some(most) => Quantum::short(path, limit, room, most),
            None => Quantum::new(path, limit, room),
        };
    }

    /// Returns the next segment of the run with at most `most` followers, or `None` if the run is
    /// over.
    #[inline]
    pub(crate) fn next_of_run(&mut self, most: u32) -> Option<Departure> {
        while !self.run.is_over() {
            let Run { next: psn, path, .. } = self.run;
            self.run.advance(1);
            let asks = self.run.is_over() && self.run.asks;
            // A segment that was declared lost meanwhile leaves as a retransmission. A segment that
            // was given up does not leave.
            let segment = self.window.get(psn).filter(|found| found.is_first_flight());
            let Some(&Segment { source, offset, len, .. }) = segment else { continue };
            let next = Next { source, offset, len };
            return Some(Departure {
                next,
                psn,
                followers: self.take_followers(next, most),
                again: false,
                asks,
                path,
                batch_start: false,
                placement: Placement::PLAIN,
            });
        }
        None
    }

    /// Takes the segments from the run that continue the message of `first`, at most `most`.
    #[inline]
    fn take_followers(&mut self, first: Next, most: u32) -> Followers {
        let most = if self.run.is_split { most.min(self.run.left) } else { 0 };
        let (mut followers, mut last) = (Followers::default(), first);
        for segment in self.window.from(self.run.next).take(most as usize) {
            let Segment { source, offset, len, .. } = *segment;
            let continues = source == last.source && offset == last.offset + u32::from(last.len);
            let is_alike = last.len == first.len && len <= first.len;
            if !continues || !is_alike || !segment.is_first_flight() {
                break;
            }
            last = Next { source, offset, len };
            followers.count += 1;
            followers.bytes += u32::from(len);
        }
        self.run.advance(followers.count);
        followers.asks = followers.count > 0 && self.run.is_over() && self.run.asks;
        followers
    }

    /// Discards the cached choice of the next segment after an event of the queue pair. An idle
    /// stream without new work keeps it, so that a queue pair that only receives does not search
    /// again after each packet.
    pub(crate) fn look_again(&mut self, queue: &impl Source) {
        if !queue.is_used_up() || !self.is_idle() {
            self.next_segment = NextSegment::Unknown;
        }
    }

    /// Enters a new segment in the window without sending it. It is sent later, or at once if no
    /// other segment follows.
    fn skip_next(&mut self, queue: &mut impl Source, context: &PollContext<'_>, next: Next) {
        let psn = self.skip(context.now, next);
        queue.advance(next, next.len.into(), psn, psn);
        let follows = self.candidate(queue, context).is_some();
        self.settle_skipped(context.now, psn, next.len, follows);
    }

    /// Returns whether, for now, no segment follows the one that was sent last.
    fn is_last(&mut self, queue: &impl Source, context: &mut PollContext<'_>) -> bool {
        let is_last = match self.choose(queue, context) {
            // Other queue pairs have their turns first.
            Ok(_) => context.budget.is_shared && self.quantum_has_ended(),
            Err(Block::Rate) => self.is_held_for_long(context.now),
            Err(Block::Nothing | Block::Peer | Block::Window | Block::Budget(_)) => true,
            Err(Block::CreditRequest) => false,
        };
        if is_last {
            self.on_last();
        }
        is_last
    }

    /// Returns the segment that leaves next.
    #[inline(always)] // the choice is usually cached
    fn choose(
        &mut self,
        queue: &impl Source,
        context: &mut PollContext<'_>,
    ) -> Result<Choice, Block> {
        match self.next_segment {
            NextSegment::Unknown => self.look(queue, context),
            NextSegment::Blocked(block) => Err(block),
            NextSegment::Segment(choice)
                if choice.needs.bytes() <= context.budget.left.on(choice.needs.rail()) =>
            {
                Ok(choice)
            }
            NextSegment::Segment(Choice { needs, .. }) => {
                self.on_blocked(Block::Budget(needs));
                Err(Block::Budget(needs))
            }
        }
    }

    /// Determines the segment that leaves next.
    #[inline(never)]
    fn look(
        &mut self,
        queue: &impl Source,
        context: &mut PollContext<'_>,
    ) -> Result<Choice, Block> {
        loop {
            let choice = self.try_candidate(queue, context);
            self.next_segment = NextSegment::new(choice);
            match choice {
                Err(Block::Nothing) => self.expect_tail(context.now),
                Err(Block::Peer | Block::Window) if self.window.is_overtaken() => {
                    self.expect_tail(context.now);
                }
                _ => {}
            }
            match choice {
                Err(block) if self.on_blocked(block) => {}
                _ => return choice,
            }
        }
    }

    #[inline]
    fn try_candidate(
        &mut self,
        queue: &impl Source,
        context: &mut PollContext<'_>,
    ) -> Result<Choice, Block> {
        let (next, lost) = self.candidate(queue, context).ok_or(Block::Nothing)?;
        let Remote { window, segments, .. } = *context.remote;
        let batch = context.batches.batch();
        let limits = SendLimits { window, segments, budget: context.budget.left, batch };
        let needs = self.may_send(context.now, next.len, lost, &limits, context.rails)?;
        let choice = Choice { next, lost, needs };
        Ok(match context.rails.count() {
            1 => choice, // already cut to the only rail
            _ => choice.cut_to(context.path_mtu.on(self.subflows.rail())),
        })
    }

    /// Returns the next segment with its PSN if it was lost or released, before new segments.
    #[inline(always)] // called for each packet, from two places
    fn candidate(
        &mut self,
        queue: &impl Source,
        context: &PollContext<'_>,
    ) -> Option<(Next, Option<Psn>)> {
        if let Some((psn, lost)) = self.window.peek_lost() {
            let next = Next { source: lost.source, offset: lost.offset, len: lost.len };
            return Some((next, Some(psn)));
        }
        self.fresh(queue, context).map(|next| (next, None))
    }

    /// Returns the next new segment.
    #[inline(always)] // called for each packet
    fn fresh(&self, queue: &impl Source, context: &PollContext<'_>) -> Option<Next> {
        queue.peek(self.limits(context))
    }

    #[inline(always)] // called for each packet
    fn limits(&self, context: &PollContext<'_>) -> Limits {
        let mtu = context.remote.mtu.min(context.path_mtu.longest());
        Limits {
            mtu,
            write_mtu: self.write_mtu(context.now, mtu),
            max_rd_atomic: context.remote.max_rd_atomic,
            is_draining: context.is_draining,
        }
    }

    /// Enters the new segments that follow the current one in the window, and takes their share of
    /// the budget.
    #[inline(never)] // called once for many segments
    fn extend_run(
        &mut self,
        queue: &mut impl Source,
        context: &mut PollContext<'_>,
        run: &mut Run,
    ) {
        let Some(reach) = self.reach(run.path, context) else { return };
        let limits = self.limits(context);
        while run.left < reach.segments && !run.asks {
            let Some(mut next) = queue.peek(limits) else { break };
            next.len = next.len.min(reach.payload);
            let (before, first) = (run.bytes, run.end());
            let message = (queue.left_of(next), queue.left_behind());
            self.follow(next, message, &reach, context, run);
            if run.end() == first {
                break;
            }
            run.is_split |= next.offset > 0 || run.end() > first.plus(1);
            let last = Psn(run.end().0 - 1);
            queue.advance(next, (run.bytes - before) as u32, first, last);
        }
        if run.left > 0 {
            context.rails.on_sent(run.path, run.left, false);
            self.end_of_run(context, *run);
        }
    }

    /// Returns the limits of a run. Among their inputs, only the window changes while the segments
    /// of the run are entered.
    fn reach(&self, path: PathId, context: &PollContext<'_>) -> Option<Reach> {
        let payload = match context.rails.count() {
            1 => u16::MAX, // segments are already cut to the only rail
            _ => context.path_mtu.on(path.rail()),
        };
        let rail = path.rail();
        let segments = self.segments_behind(context.remote.window, context.remote.segments)?;
        let in_flight = self.window.in_flight()[rail];
        let mut bytes = self.subflows.current().cc.window().saturating_sub(in_flight);
        if context.budget.in_flight[rail] == 0 {
            // An idle socket accepts one segment even if its buffer is smaller. Further segments
            // have to fit.
            bytes = bytes.min(self.peer_bytes.saturating_sub(in_flight));
        }
        Some(Reach { segments, bytes: bytes.min(context.budget.left.on(rail)), payload })
    }

    /// Enters segments of one message in a run, from `next` on, as long as the run and its batch
    /// have room. `left`: the payload bytes of the message from there on; `behind`: the messages
    /// that wait behind it.
    fn follow(
        &mut self,
        mut next: Next,
        (mut left, behind): (u32, usize),
        reach: &Reach,
        context: &mut PollContext<'_>,
        run: &mut Run,
    ) {
        let full = next.len;
        loop {
            next.len = left.min(full.into()) as u16;
            let wire_len = Segment::wire_len(next.len);
            let fits = run.left < reach.segments && run.wire_bytes() + wire_len <= reach.bytes;
            let subflow = self.subflows.current_mut();
            if !fits || subflow.quantum.begins_batch() {
                return;
            }
            subflow.quantum.join(next.len, context.batches);
            let psn = self.window.push(context.now, next, run.path, None);
            subflow.cc.on_entered(context.now, psn, wire_len);
            run.asks = self.asks_with(next.len, false, behind, &mut context.budget);
            run.add(next.len);
            next.offset += u32::from(next.len);
            left -= u32::from(next.len);
            if left == 0 || run.asks {
                return;
            }
        }
    }

    /// Counts the segments of a run.
    fn end_of_run(&mut self, context: &mut PollContext<'_>, run: Run) {
        let (rail, bytes) = (run.path.rail(), run.wire_bytes());
        let in_flight = context.budget.in_flight[rail];
        let most = Most { batch: context.batches.segments(), in_flight };
        self.subflows.on_sent(bytes);
        self.pace(context.now, bytes, run.left, most);
        *context.budget.batch = self.subflows.current().quantum.batch();
        context.budget.left.spent = Need::new(rail, context.budget.left.spent.bytes() + bytes);
    }
}
