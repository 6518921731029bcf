//! Choice of the next packet of a queue pair: a pending acknowledgement, a lost segment, or a new
//! one. [`super::describe`] fills in its header afterwards.

use braid_lb::Rails;
use braid_wire::{Control, ControlKind, Stream, Time};

use super::connected::ConnectedQp;
use super::streams::{Streams, following};
use crate::stream::recv::recv_stream::RecvStream;
use crate::stream::send::run::Run;
use crate::stream::send::send_limits::{Block, Budget, Need};
use crate::stream::send::send_stream::SendStream;
use crate::stream::send::transmit::{Departure, PollContext};
use crate::{Egress, QpState};

/// Result of a poll for a packet.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A packet, for [`ConnectedQp::describe`]. `yields`: its quantum has ended, so that another
    /// queue pair may have its turn.
    Packet { packet: Packet, yields: bool },
    /// Segments of a run remain to be handed out, see [`ConnectedQp::go_on`].
    Run,
    /// Nothing can leave before the next event of this queue pair.
    Idle,
    /// Nothing can leave until the endpoint has this much budget.
    NoBudget(Need),
}

/// A packet that leaves now.
#[derive(Debug)]
pub(crate) enum Packet {
    /// An acknowledgement of this stream.
    Ack(Stream),
    /// The confirmation of a DISCONNECT, and its egress.
    Confirm(Egress),
    /// A segment of this stream.
    Segment(Stream, Departure),
    /// A request for credit for this stream.
    CreditRequest(Stream),
}

impl ConnectedQp {
    /// Returns the next packet.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        rails: &mut Rails,
        budget: Budget<'_>,
    ) -> Outcome {
        if let Some(packet) = self.poll_ack(|incoming| incoming.is_ack_overdue(now)) {
            return Outcome::Packet { packet, yields: false };
        }
        let data = self.poll_data(now, rails, budget);
        if matches!(data, Outcome::Packet { .. }) {
            return data;
        }
        match self.poll_ack(|incoming| incoming.is_ack_due(now)) {
            Some(packet) => Outcome::Packet { packet, yields: false },
            None => data,
        }
    }

    fn poll_data(&mut self, now: Time, rails: &mut Rails, budget: Budget<'_>) -> Outcome {
        let sends = matches!(self.qp.state, QpState::ReadyToSend | QpState::SendQueueDrained);
        if !sends {
            return self.confirms.take().map_or(Outcome::Idle, |egress| Outcome::Packet {
                packet: Packet::Confirm(egress),
                yields: false,
            });
        }
        if self.streams.is_paused || self.streams.is_blocked() {
            return Outcome::Idle;
        }
        if self.has_run() {
            return Outcome::Run;
        }
        let is_draining = self.qp.state == QpState::SendQueueDrained;
        let Streams { remote, path_mtu, batches, requests, responses, turn: first, .. } =
            &mut *self.streams;
        let (first, batches) = (*first, *batches);
        let mut context =
            PollContext { now, remote, path_mtu, batches, is_draining, rails, budget };
        let (mut outcome, mut stream) = (Outcome::Idle, first);
        loop {
            let sent = match (stream, &mut *responses) {
                (Stream::Requests, _) => requests.poll(&mut context),
                (Stream::Responses, Some(responses)) => responses.poll(&mut context),
                (Stream::Responses, None) => Err(Block::Nothing),
            };
            let next = following(stream, responses.is_some());
            match sent {
                Ok(departure) => {
                    self.count_sent(stream, &departure);
                    let yields = self.sent_on(now, stream);
                    return Outcome::Packet { packet: Packet::Segment(stream, departure), yields };
                }
                Err(Block::CreditRequest) => {
                    let packet = Packet::CreditRequest(stream);
                    return Outcome::Packet { packet, yields: false };
                }
                Err(Block::Budget(needs)) => outcome = outcome.or_needs(needs),
                Err(Block::Nothing | Block::Peer | Block::Window | Block::Rate) => {}
            }
            if next == stream || next == first {
                return outcome;
            }
            stream = next;
        }
    }

    fn count_sent(&mut self, stream: Stream, departure: &Departure) {
        let run = self.streams.outgoing(stream).map_or(Run::default(), |outgoing| outgoing.run);
        let counters = &mut self.qp.counters;
        counters.segments_sent += 1 + u64::from(departure.followers.count + run.left);
        counters.retransmitted += u64::from(departure.again);
        counters.bytes_sent += u64::from(departure.next.len) + run.bytes;
    }

    fn sent_on(&mut self, now: Time, stream: Stream) -> bool {
        self.streams.all_incoming_mut().for_each(|incoming| incoming.on_reply(now));
        if stream == Stream::Responses {
            self.streams.on_responses_sent(now);
        }
        self.streams.turn = stream;
        self.ends_turn()
    }

    /// Ends the turn of the current stream if its quantum has ended and its run was handed out.
    /// Returns whether it did.
    pub(crate) fn ends_turn(&mut self) -> bool {
        let streams = &mut self.streams;
        let stream = streams.turn;
        let ends = streams
            .outgoing(stream)
            .is_some_and(|outgoing| outgoing.quantum_has_ended() && outgoing.run.is_over());
        if ends {
            streams.turn = streams.after(stream);
        }
        ends
    }

    /// See [`crate::Endpoint::is_ack_due_at_once`].
    pub(crate) fn is_ack_due_at_once(&self, now: Time) -> bool {
        self.streams.with_due_ack(|incoming| incoming.is_ack_due_at_once(now)).is_some()
    }

    /// See [`crate::Endpoint::expedite_acks`].
    pub(crate) fn expedite_acks(&mut self) {
        let streams = &mut self.streams;
        streams.all_incoming_mut().for_each(RecvStream::expedite_ack);
    }

    /// See [`crate::Endpoint::release_skipped`].
    pub(crate) fn release_skipped(&mut self) {
        self.streams.all_outgoing_mut().for_each(SendStream::release_skipped);
    }

    fn poll_ack(&self, is_due: impl Fn(&RecvStream) -> bool) -> Option<Packet> {
        self.streams.with_due_ack(is_due).map(Packet::Ack)
    }

    /// Returns a control packet for the peer.
    pub(crate) fn control(&self, kind: ControlKind, stamp: u32) -> Control {
        let remote = self.remote();
        Control { kind, qp: remote.qp, from: self.qp.id, token: remote.token, stamp }
    }

    /// Returns the next segments of the current run, or `None` if the run is over or the driver
    /// accepts no segments.
    #[inline]
    pub(crate) fn go_on(&mut self) -> Option<Packet> {
        if self.streams.is_paused {
            return None;
        }
        let stream = self.streams.turn;
        let followers = self.streams.batches.followers();
        let departure = self.streams.outgoing(stream)?.next_of_run(followers)?;
        Some(Packet::Segment(stream, departure))
    }

    /// Whether segments of the current run remain to be handed out.
    #[inline]
    pub(crate) fn has_run(&self) -> bool {
        match (self.streams.turn, &self.streams.responses) {
            (Stream::Requests, _) => !self.streams.requests.stream.run.is_over(),
            (Stream::Responses, Some(responses)) => !responses.stream.run.is_over(),
            (Stream::Responses, None) => false,
        }
    }

    /// Discards the cached choice of each stream's next segment after an event.
    pub(crate) fn look_again(&mut self) {
        let Streams { requests, responses, .. } = &mut *self.streams;
        requests.look_again();
        if let Some(responses) = responses {
            responses.look_again();
        }
    }
}

impl Outcome {
    /// Merges in that a stream could send with this much budget. The smaller of two needs counts.
    fn or_needs(self, need: Need) -> Self {
        match self {
            Outcome::NoBudget(other) if other.bytes() <= need.bytes() => self,
            _ => Outcome::NoBudget(need),
        }
    }
}
