//! The next packet of a queue pair: a pending acknowledgement, a lost segment, or a new one. The
//! packet is decided on here and described later ([`super::describe`]).

use braid_lb::Rails;
use braid_wire::{Control, ControlKind, PathId, Psn, Stream, Time};

use super::connected::ConnectedQp;
use crate::stream::recv::recv_stream::RecvStream;
use crate::stream::send::congestion::Most;
use crate::stream::send::direct::Placement;
use crate::stream::send::next_segment::{Choice, NextSegment};
use crate::stream::send::run::Run;
use crate::stream::send::segment::Segment;
use crate::stream::send::send_limits::{Allowance, Block, Budget, Need, SendLimits};
use crate::stream::send::send_queue::{Limits, Next};
use crate::{Egress, QpState, Remote};

/// Result of a poll for a packet.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A packet, for [`ConnectedQp::describe`]. `yields`: its batch is full, so that another queue
    /// pair may have its turn.
    Packet { packet: Packet, yields: bool },
    /// Part of a run has still to be handed out: see [`ConnectedQp::go_on`].
    Run,
    /// Nothing until something happens to this queue pair.
    Idle,
    /// Nothing until the endpoint has so much budget.
    NoBudget(Need),
}

/// A packet that leaves now.
#[derive(Debug)]
pub(crate) enum Packet {
    /// An acknowledgement of this stream.
    Ack(Stream),
    /// A DISCONNECT is confirmed, by such a port as it left by.
    Confirm(Egress),
    /// A segment.
    Segment(Departure),
}

/// A segment that leaves now.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(super) stream: Stream,
    pub(super) next: Next,
    pub(super) psn: Psn,
    /// Whether this is a retransmission.
    pub(super) again: bool,
    /// Whether the segment asks for an acknowledgement.
    pub(super) asks: bool,
    pub(super) path: PathId,
    pub(super) batch_start: bool,
    pub(super) placement: Placement,
}

impl ConnectedQp {
    /// The next packet.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        rails: &mut Rails,
        mut budget: Budget<'_>,
    ) -> Outcome {
        if let Some(packet) = self.poll_ack(|incoming| incoming.owes_ack_first(now)) {
            return Outcome::Packet { packet, yields: false };
        }
        let data = self.poll_data(now, rails, &mut budget);
        if matches!(data, Outcome::Packet { .. }) {
            return data;
        }
        match self.poll_ack(|incoming| incoming.owes_ack(now)) {
            Some(packet) => Outcome::Packet { packet, yields: false },
            None => data,
        }
    }

    fn poll_data(&mut self, now: Time, rails: &mut Rails, budget: &mut Budget<'_>) -> Outcome {
        let sends = matches!(self.qp.state, QpState::ReadyToSend | QpState::SendQueueDrained);
        if !sends {
            return self.confirms.take().map_or(Outcome::Idle, |egress| Outcome::Packet {
                packet: Packet::Confirm(egress),
                yields: false,
            });
        }
        if self.streams.is_paused {
            return Outcome::Idle;
        }
        if !self.streams.run.is_over() {
            return Outcome::Run;
        }
        let first = self.streams.turn;
        let (mut outcome, mut stream) = (Outcome::Idle, first);
        loop {
            match self.poll_stream(now, stream, rails, budget) {
                Ok(departure) => {
                    let yields = self.sent_on(now, stream);
                    return Outcome::Packet { packet: Packet::Segment(departure), yields };
                }
                Err(Block::Budget(needs)) => outcome = outcome.or_needs(needs),
                Err(Block::Nothing | Block::Peer | Block::Window | Block::Rate) => {}
            }
            let next = self.after(stream);
            if next == stream || next == first {
                return outcome;
            }
            stream = next;
        }
    }

    fn sent_on(&mut self, now: Time, stream: Stream) -> bool {
        self.streams.all_incoming_mut().for_each(|incoming| incoming.on_reply(now));
        if stream == Stream::Responses {
            self.streams.on_response(now);
        }
        self.streams.turn = stream;
        self.ends_turn()
    }

    /// Ends the turn of a stream after a batch. Returns whether the batch is full and has been
    /// handed out.
    pub(crate) fn ends_turn(&mut self) -> bool {
        let streams = &mut self.streams;
        let stream = streams.turn;
        let is_full = streams.outgoing(stream).is_some_and(|outgoing| outgoing.quantum_has_ended());
        let ends = is_full && streams.run.is_over();
        if ends {
            streams.turn = streams.after(stream);
        }
        ends
    }

    /// The stream that has its turn after this one.
    fn after(&self, stream: Stream) -> Stream {
        self.streams.after(stream)
    }

    /// See [`crate::Endpoint::owes_ack_at_once`].
    pub(crate) fn owes_ack_at_once(&self, now: Time) -> bool {
        self.streams.owing(|incoming| incoming.owes_ack_at_once(now)).is_some()
    }

    /// See [`crate::Endpoint::hasten_acks`].
    pub(crate) fn hasten_acks(&mut self) {
        let streams = &mut self.streams;
        streams.all_incoming_mut().for_each(RecvStream::hasten_ack);
    }

    fn poll_ack(&self, owes: impl Fn(&RecvStream) -> bool) -> Option<Packet> {
        self.streams.owing(owes).map(Packet::Ack)
    }

    /// A control packet for the other end.
    pub(crate) fn control(&self, kind: ControlKind, stamp: u32) -> Control {
        let remote = self.remote();
        Control { kind, qp: remote.qp, from: self.qp.id, token: remote.token, stamp }
    }

    fn poll_stream(
        &mut self,
        now: Time,
        stream: Stream,
        rails: &mut Rails,
        budget: &mut Budget<'_>,
    ) -> Result<Departure, Block> {
        let Choice { next, lost, .. } = self.choose(now, stream, budget.left, rails)?;
        let streams = &mut self.streams;
        let limit = streams.batches;
        let Some(outgoing) = streams.outgoing(stream) else { return Err(Block::Nothing) };
        if lost.is_none() && outgoing.skips_next() {
            self.skip(now, stream, next);
            return self.poll_stream(now, stream, rails, budget);
        }
        let psn = lost.unwrap_or(outgoing.window.next());
        let released = lost.is_some() && lost == outgoing.window.skipped();
        let again = lost.is_some() && !released;
        let (path, batch_start) =
            outgoing.take_path(now, psn, next.len, rails, limit, budget.batch);
        rails.on_sent(path, again);
        let in_flight = budget.in_flight[path.rail()];
        // The rate holds no probe back, so probes take nothing of it. Otherwise those of many
        // time-outs would delay what follows them for long.
        if !again || outgoing.probes.due == 0 {
            let most = Most { batch: limit.segments(), in_flight };
            outgoing.pace(now, Segment::wire_len(next.len), 1, most);
        }
        let writes = || self.sq.writes(next);
        let (psn, placement) = outgoing.enter(now, next, lost, path, writes);
        let left = if lost.is_none() { self.sq.left_behind(stream) } else { 0 };
        let asks = outgoing.on_sent(now, next.len, again, left, budget) || released;
        if lost.is_none() {
            self.advance(stream, next, psn);
        }
        self.qp.counters.segments_sent += 1;
        self.qp.counters.retransmitted += u64::from(again);
        self.qp.counters.bytes_sent += u64::from(next.len);
        budget.left.spent = Need::new(path.rail(), Segment::wire_len(next.len));
        let is_alone = stream == Stream::Requests && self.sq.unsent() == 0;
        let mut run = if asks || lost.is_some() || is_alone {
            Run::default()
        } else {
            self.begin_run(now, stream, psn, path, budget, rails)
        };
        run.asks |= self.is_last(now, stream, budget, rails) || asks;
        self.streams.run = run;
        let asks = run.asks && run.is_over();
        Ok(Departure { stream, next, psn, again, asks, path, batch_start, placement })
    }

    /// A new segment has this PSN.
    #[inline(always)] // once for each segment
    pub(super) fn advance(&mut self, stream: Stream, next: Next, psn: Psn) {
        match (stream, &mut self.streams.answers) {
            (Stream::Requests, _) => self.sq.advance(next, psn),
            (Stream::Responses, Some(answers)) => answers.owed.advance(next, psn),
            (Stream::Responses, None) => {}
        }
    }

    /// Enters a new segment in the window, to leave later unless it is the last there is.
    fn skip(&mut self, now: Time, stream: Stream, next: Next) {
        let outgoing = self.streams.outgoing(stream);
        let Some(psn) = outgoing.map(|outgoing| outgoing.skip(now, next)) else { return };
        self.advance(stream, next, psn);
        let follows = self.candidate(now, stream).is_some();
        if let Some(outgoing) = self.streams.outgoing(stream) {
            outgoing.settle_skipped(now, psn, next.len, follows);
        }
    }

    /// Whether nothing follows for now what was sent last.
    fn is_last(
        &mut self,
        now: Time,
        stream: Stream,
        budget: &Budget<'_>,
        rails: &mut Rails,
    ) -> bool {
        let following = self.choose(now, stream, budget.left, rails);
        let outgoing = self.streams.outgoing(stream);
        let Some(outgoing) = outgoing else { return true };
        let is_last = match following {
            // The others have their turns first.
            Ok(_) => budget.is_shared && outgoing.quantum_has_ended(),
            Err(Block::Rate) => outgoing.is_held_for_long(now),
            Err(Block::Nothing | Block::Peer | Block::Window | Block::Budget(_)) => true,
        };
        if is_last {
            outgoing.on_last();
        }
        is_last
    }

    /// The segment that goes out next.
    fn choose(
        &mut self,
        now: Time,
        stream: Stream,
        budget: Allowance<'_>,
        rails: &mut Rails,
    ) -> Result<Choice, Block> {
        let streams = &mut self.streams;
        let outgoing = streams.outgoing(stream).ok_or(Block::Nothing)?;
        match outgoing.next_segment {
            NextSegment::Unknown => self.look(now, stream, budget, rails),
            NextSegment::Blocked(block) => Err(block),
            NextSegment::Segment(choice)
                if choice.needs.bytes() <= budget.on(choice.needs.rail()) =>
            {
                Ok(choice)
            }
            NextSegment::Segment(Choice { needs, .. }) => {
                outgoing.on_blocked(Block::Budget(needs));
                Err(Block::Budget(needs))
            }
        }
    }

    /// Finds out what goes out next.
    fn look(
        &mut self,
        now: Time,
        stream: Stream,
        budget: Allowance<'_>,
        rails: &mut Rails,
    ) -> Result<Choice, Block> {
        let candidate = self.candidate(now, stream);
        let streams = &mut self.streams;
        let Remote { window, segments, .. } = streams.remote;
        let limits = SendLimits { window, segments, budget, batch: streams.batches.batch() };
        let by_rail = (rails.count() > 1).then_some(streams.path_mtu);
        let outgoing = streams.outgoing(stream).ok_or(Block::Nothing)?;
        let choice = candidate.ok_or(Block::Nothing).and_then(|(next, lost)| {
            let needs = outgoing.may_send(now, next.len, lost, &limits, rails)?;
            let choice = Choice { next, lost, needs };
            Ok(match by_rail {
                Some(payloads) => choice.cut_to(payloads.on(outgoing.subflows.rail())),
                None => choice, // it is cut to the one that there is
            })
        });
        outgoing.next_segment = NextSegment::new(choice);
        if matches!(choice, Err(Block::Nothing)) {
            outgoing.expect_tail(now);
        }
        if let Err(block) = choice
            && outgoing.on_blocked(block)
        {
            return self.look(now, stream, budget, rails);
        }
        choice
    }

    /// Forgets which segment leaves next, because something happened. An idle stream without new
    /// work is not asked again, so that a queue pair that only receives does not pay with every
    /// packet.
    pub(crate) fn look_again(&mut self) {
        let streams = &mut self.streams;
        if self.sq.unsent() > 0 || !streams.requests.is_idle() {
            streams.requests.next_segment = NextSegment::Unknown;
        }
        if let Some(answers) = &mut streams.answers {
            answers.stream.next_segment = NextSegment::Unknown;
        }
    }

    /// Returns the next segment, lost and released ones before new ones.
    #[inline(always)] // called for each packet, and from where segments are skipped
    fn candidate(&mut self, now: Time, stream: Stream) -> Option<(Next, Option<Psn>)> {
        let streams = &mut self.streams;
        if let Some((psn, lost)) = streams.outgoing(stream)?.window.peek_lost() {
            let next = Next { source: lost.source, offset: lost.offset, len: lost.len };
            return Some((next, Some(psn)));
        }
        self.fresh(now, stream).map(|next| (next, None))
    }

    /// Returns the next new segment.
    #[inline(always)] // called for each packet
    pub(super) fn fresh(&self, now: Time, stream: Stream) -> Option<Next> {
        let streams = &self.streams;
        let mtu = streams.mtu();
        match stream {
            Stream::Requests => self.sq.peek(Limits {
                mtu,
                write_mtu: streams.requests.write_mtu(now, mtu),
                max_rd_atomic: streams.remote.max_rd_atomic,
                draining: self.qp.state == QpState::SendQueueDrained,
            }),
            Stream::Responses => streams.answers.as_ref()?.owed.peek(mtu),
        }
    }
}

impl Outcome {
    /// One stream could send with so much budget; of two the more modest counts.
    fn or_needs(self, need: Need) -> Self {
        match self {
            Outcome::NoBudget(other) if other.bytes() <= need.bytes() => self,
            _ => Outcome::NoBudget(need),
        }
    }
}
