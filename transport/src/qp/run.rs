//! Runs: new segments that leave right behind another one, on its path and in its batch.
//!
//! Many conditions decide whether a segment may leave, and they hold for those behind it as well.
//! So the queue pair determines once how many may follow, and enters them in the window together.
//! They are handed out one by one; meanwhile the stream keeps its turn.

use braid_lb::Rails;
use braid_wire::{PathId, Psn, Stream, Time};

use super::connected::ConnectedQp;
use super::transmit::{Departure, Packet};
use crate::stream::send::congestion::Most;
use crate::stream::send::direct::Placement;
use crate::stream::send::run::Run;
use crate::stream::send::segment::Segment;
use crate::stream::send::send_limits::{Budget, Need};
use crate::stream::send::send_queue::Next;

/// Upper limits of a run.
#[derive(Clone, Copy, Debug)]
struct Reach {
    segments: u32,
    /// On the wire.
    bytes: u64,
    /// Payload bytes of a segment.
    payload: u16,
}

impl ConnectedQp {
    /// Enters the segments that follow the new segment with the PSN `first` in the window, and
    /// takes their share of the budget.
    #[inline(never)] // once for many segments
    pub(super) fn begin_run(
        &mut self,
        now: Time,
        stream: Stream,
        first: Psn,
        path: PathId,
        budget: &mut Budget<'_>,
        rails: &mut Rails,
    ) -> Run {
        let mut run = Run { next: first.plus(1), left: 0, path, asks: false };
        let Some(reach) = self.reach(stream, path, budget, rails) else { return run };
        let mut bytes = 0;
        while run.left < reach.segments && !run.asks {
            let Some(next) = self.following(now, stream, reach.payload) else { break };
            let wire_len = Segment::wire_len(next.len);
            if bytes + wire_len > reach.bytes {
                break;
            }
            let Some(asks) = self.follow(now, stream, next, path, budget) else { break };
            rails.on_sent(path, false);
            bytes += wire_len;
            run.left += 1;
            run.asks = asks;
        }
        self.end_of_run(now, bytes, run, stream, budget);
        run
    }

    /// Returns the limits of a run. Of what they depend on, only the window changes while its
    /// segments are entered.
    fn reach(
        &mut self,
        stream: Stream,
        path: PathId,
        budget: &Budget<'_>,
        rails: &Rails,
    ) -> Option<Reach> {
        let streams = &mut self.streams;
        let (window, segments) = (streams.remote.window, streams.remote.segments);
        let payload = match rails.count() {
            1 => u16::MAX, // what there is is cut to it
            _ => streams.path_mtu.on(path.rail()),
        };
        let (outgoing, rail) = (streams.outgoing(stream)?, path.rail());
        let segments = outgoing.segments_behind(window, segments)?;
        let in_flight = outgoing.window.in_flight()[rail];
        let mut bytes = outgoing.subflows.current().cc.window().saturating_sub(in_flight);
        if budget.in_flight[rail] == 0 {
            // An idle socket takes one segment however small its buffer is, and behind it only what
            // fits.
            bytes = bytes.min(outgoing.peer_bytes.saturating_sub(in_flight));
        }
        Some(Reach { segments, bytes: bytes.min(budget.left.on(rail)), payload })
    }

    fn following(&mut self, now: Time, stream: Stream, payload: u16) -> Option<Next> {
        let next = self.fresh(now, stream)?;
        Some(Next { len: next.len.min(payload), ..next })
    }

    /// One of them. `None`: its batch has ended. Returns whether it asks for an acknowledgement.
    fn follow(
        &mut self,
        now: Time,
        stream: Stream,
        next: Next,
        path: PathId,
        budget: &mut Budget<'_>,
    ) -> Option<bool> {
        let left = self.sq.left_behind(stream);
        let streams = &mut self.streams;
        let limit = streams.batches;
        let outgoing = streams.outgoing(stream)?;
        let subflow = outgoing.subflows.current_mut();
        if subflow.quantum.begins_batch() {
            return None;
        }
        subflow.quantum.join(next.len, limit);
        let psn = outgoing.window.push(now, next, path, None);
        subflow.cc.on_entered(now, psn, Segment::wire_len(next.len));
        let asks = outgoing.asks_with(next.len, false, left, budget);
        self.advance(stream, next, psn);
        Some(asks)
    }

    /// Keeps the books that are kept for all of them at once.
    fn end_of_run(
        &mut self,
        now: Time,
        bytes: u64,
        run: Run,
        stream: Stream,
        budget: &mut Budget<'_>,
    ) {
        if run.left == 0 {
            return;
        }
        let streams = &mut self.streams;
        let limit = streams.batches;
        let Some(outgoing) = streams.outgoing(stream) else { return };
        let rail = run.path.rail();
        let most = Most { batch: limit.segments(), in_flight: budget.in_flight[rail] };
        outgoing.subflows.on_sent(bytes);
        outgoing.pace(now, bytes, run.left, most);
        *budget.batch = outgoing.subflows.current().quantum.batch();
        self.qp.counters.segments_sent += u64::from(run.left);
        self.qp.counters.bytes_sent += bytes - u64::from(run.left) * Segment::wire_len(0);
        budget.left.spent = Need::new(rail, budget.left.spent.bytes() + bytes);
    }

    /// Whether there is something left of a run that was begun.
    #[inline]
    pub(crate) fn has_run(&self) -> bool {
        !self.streams.run.is_over()
    }

    /// The next segment of the run. `None`: it is over, or the driver takes no segments.
    #[inline]
    pub(crate) fn go_on(&mut self) -> Option<Packet> {
        let streams = &mut self.streams;
        if streams.is_paused {
            return None;
        }
        let stream = streams.turn;
        while !streams.run.is_over() {
            let Run { next: psn, path, .. } = streams.run;
            streams.run.left -= 1;
            streams.run.next = psn.plus(1);
            let asks = streams.run.is_over() && streams.run.asks;
            let segment = streams.outgoing(stream).and_then(|outgoing| outgoing.window.get(psn));
            // A segment that was declared lost meanwhile leaves as a retransmission. A segment that
            // was given up does not leave.
            let Some(segment) = segment.filter(|found| found.is_first_flight()) else { continue };
            let Segment { source, offset, len, .. } = *segment;
            return Some(Packet::Segment(Departure {
                stream,
                next: Next { source, offset, len },
                psn,
                again: false,
                asks,
                path,
                batch_start: false,
                placement: Placement::PLAIN,
            }));
        }
        None
    }
}
