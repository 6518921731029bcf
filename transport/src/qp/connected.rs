//! A connected queue pair: a [`QueuePair`] and the streams of its connection.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Duration;

use braid_lb::{RailSet, Rails, StreamId};
use braid_wire::{PathId, RailId, Stream, Time};

use super::metrics::{self, SubflowMetrics};
use super::queue_pair::QueuePair;
use super::streams::Streams;
use crate::idle::KEPT_ENTRIES;
use crate::output::EventKind;
use crate::stream::marks::MarkSample;
use crate::stream::per_rail::RailPayloads;
use crate::stream::recv::recv_stream::RecvStream;
use crate::stream::send::direct::NicEpoch;
use crate::stream::send::response_queue::ResponseQueue;
use crate::stream::send::send_stream::{SendStream, Timeout};
use crate::{
    Egress, EndCause, Ended, EndpointConfig, PostError, QpAttributes, QpState, RecvWr, Remote,
    SendWr, Sge, StateError,
};

/// A connected queue pair. An [`crate::Endpoint`] owns it and gives access to it.
#[derive(Debug)]
pub struct ConnectedQp {
    pub(super) qp: QueuePair,
    pub(super) streams: Box<Streams>,
    /// Whether the queue pair has ended and the peer must still be sent a DISCONNECT.
    pub(super) disconnects: bool,
    /// Egress by which the peer's DISCONNECT left, until the confirmation is sent. The confirmation
    /// leaves by the same kind of port.
    pub(super) confirms: Option<Egress>,
    /// Whether a SEND was longer than its receive, so that the receive completes with a length
    /// error.
    pub(super) too_long: bool,
}

impl Deref for ConnectedQp {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.qp
    }
}

impl ConnectedQp {
    /// Connects a queue pair to its peer and moves it to RTS. `ids`: of its request stream and of
    /// its response stream.
    pub(crate) fn new(
        mut qp: QueuePair,
        remote: Remote,
        endpoint: &EndpointConfig,
        rails: usize,
        ids: [StreamId; 2],
    ) -> Self {
        let streams = Streams::new(remote, qp.token, &qp.config, endpoint, rails, ids);
        let streams = Box::new(streams);
        qp.state = QpState::ReadyToSend;
        ConnectedQp { qp, streams, disconnects: false, confirms: None, too_long: false }
    }

    /// Drops the connection. The queue pair keeps its state and its receives.
    pub(crate) fn into_unconnected(self) -> QueuePair {
        self.qp
    }

    /// See [`crate::Endpoint::state_of`].
    #[inline]
    pub(crate) fn state_of(&self, sends: bool, depth: u8, mut visit: impl FnMut(*const u8, usize)) {
        let streams = &self.streams;
        match (depth, sends) {
            (1, _) => streams.parts(sends, visit),
            (_, true) => {
                let SendStream { window, subflows, marks, .. } = &streams.requests.stream;
                window.rings(&mut visit);
                subflows.current().cc.state_of(&mut visit);
                marks.rings(&mut visit);
                streams.requests.queue.rings(visit);
            }
            (_, false) => streams.from_requests.rings(&mut visit),
        }
    }

    /// Changes the state. RESET is not possible, because the queue pair has to leave its endpoint
    /// first.
    pub(crate) fn modify(&mut self, to: QpState) -> Result<(), StateError> {
        let from = self.qp.state;
        if !from.may_become(to) || to == QpState::Reset {
            return Err(StateError { from, to });
        }
        match to {
            QpState::Error => self.enter_error(EndCause::Application.into()),
            QpState::SendQueueDrained => {
                self.qp.state = to;
                self.announce_drained();
            }
            _ => self.qp.state = to,
        }
        Ok(())
    }

    /// Moves the queue pair to ERR for a cause that the driver has detected. Returns false if the
    /// state does not allow that, or is ERR already.
    pub(crate) fn end(&mut self, cause: EndCause) -> bool {
        let state = self.qp.state;
        if state == QpState::Error || !state.may_become(QpState::Error) {
            return false;
        }
        self.enter_error(cause.into());
        self.qp.events.push_back(EventKind::Ended(cause.into()));
        true
    }

    /// Posts a work request to the send queue. In ERR it is flushed at once.
    pub(crate) fn post_send(&mut self, wr: SendWr) -> Result<(), PostError> {
        self.qp.check_send(&wr, self.streams.requests.queue.len())?;
        if self.qp.state == QpState::Error {
            self.qp.flush(wr.id, wr.op.work());
        } else {
            self.streams.requests.queue.push(wr);
        }
        Ok(())
    }

    /// Posts a receive. In ERR it is flushed at once.
    pub(crate) fn post_recv(&mut self, wr: RecvWr) -> Result<(), PostError> {
        self.qp.post_recv(wr)
    }

    /// Changes attributes, in any state.
    pub(crate) fn set_attributes(&mut self, attributes: QpAttributes) {
        self.qp.set_attributes(attributes);
    }

    pub(crate) fn poll_event(&mut self) -> Option<EventKind> {
        self.qp.events.pop_front()
    }

    /// Moves the work requests that have ended to the queue `to`.
    pub(crate) fn hand_over_ended(&mut self, to: &mut VecDeque<Ended>) {
        self.qp.hand_over_ended(to);
    }

    /// Returns the peer's end of the connection.
    pub fn remote(&self) -> &Remote {
        &self.streams.remote
    }

    /// Returns the payload bytes of a full segment: the length agreed at set-up, or less if no rail
    /// in use carries that.
    pub fn segment_payload(&self) -> u16 {
        self.streams.mtu()
    }

    /// Returns the smoothed round-trip time of the request stream, once measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.streams.requests.stream.smoothed_rtt()
    }

    /// Bytes in flight, of both streams, that the peer's receive buffer of a rail may hold.
    pub(crate) fn in_flight(&self, rail: RailId) -> u64 {
        self.streams.all_outgoing().map(|outgoing| outgoing.in_flight(rail)).sum()
    }

    /// Time at which [`ConnectedQp::on_timeout`] is due; [`Time::FAR_FUTURE`]: no timer runs.
    pub(crate) fn next_timeout(&self) -> Time {
        let streams = &self.streams;
        let resend = streams.all_outgoing().map(SendStream::next_timeout);
        resend
            .chain(streams.all_incoming().map(RecvStream::ack_deadline))
            .min()
            .unwrap_or(Time::FAR_FUTURE)
    }

    /// Time at which pacing permits the next segment; [`Time::FAR_FUTURE`]: pacing holds none back.
    pub(crate) fn paced_until(&self) -> Time {
        if self.streams.is_paused {
            return Time::FAR_FUTURE;
        }
        self.streams.all_outgoing().map(SendStream::paced_until).min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Handles the timers of all streams. Returns whether a retransmission timed out. `longest`:
    /// the longest recent round trip of any queue pair.
    pub(crate) fn on_timeout(&mut self, now: Time, longest: Duration, rails: &mut Rails) -> bool {
        let streams = &mut self.streams;
        streams.all_incoming_mut().for_each(|stream| stream.on_timeout(now));
        let (mut gives_up, before) = (false, self.qp.counters.timeouts);
        for stream in streams.all_outgoing_mut() {
            let outcome = stream.on_timeout(now, longest, self.qp.config.retry_timeout, rails);
            let is_timeout = matches!(outcome, Timeout::Resend(_) | Timeout::GiveUp);
            self.qp.counters.timeouts += u64::from(is_timeout);
            match outcome {
                Timeout::None => {}
                Timeout::Resend(lost) | Timeout::Tail(lost) => self.qp.counters.lost += lost,
                Timeout::GiveUp => gives_up = true,
            }
        }
        if gives_up {
            self.give_up(EndCause::PeerSilent);
        }
        self.trim();
        self.qp.counters.timeouts > before
    }

    /// Limits the payload of new segments, on each rail, to `payloads`.
    pub(crate) fn use_path_mtu(&mut self, payloads: RailPayloads, endpoint: &EndpointConfig) {
        self.streams.use_path_mtu(payloads, endpoint);
    }

    /// Ignores congestion marks on these rails from now on.
    pub(crate) fn ignore_marks(&mut self, rails: RailSet) {
        self.streams.ignore_marks(rails);
    }

    /// Replaces the congestion controllers of these rails, which have cut their windows without a
    /// cause.
    pub(crate) fn restart_controllers(&mut self, rails: RailSet) {
        if rails.is_empty() {
            return;
        }
        let streams = &mut self.streams;
        let remote = streams.remote;
        for outgoing in streams.all_outgoing_mut() {
            outgoing.restart_controllers(rails, &self.qp.config, &remote);
        }
    }

    /// Takes the latest sample of a rail's congestion marks, if there is one.
    pub(crate) fn take_mark_sample(&mut self) -> Option<(RailId, MarkSample)> {
        self.streams.all_outgoing_mut().find_map(|stream| stream.marks.take_sample())
    }

    /// Releases the queue memory that a burst has allocated, once nothing is in flight. The
    /// retransmission timer that was set for the burst calls this when it expires, so this never
    /// delays messages of a busy queue pair.
    fn trim(&mut self) {
        let streams = &mut self.streams;
        if streams.all_outgoing().all(|stream| stream.window.is_empty()) {
            streams.trim();
            self.qp.rq.trim();
            self.qp.ended.shrink_to(KEPT_ENTRIES);
        }
    }

    /// The responses to the peer's requests, if there were any.
    pub(crate) fn responses(&self) -> Option<&ResponseQueue> {
        self.streams.responses.as_ref().map(|responses| &responses.queue)
    }

    /// See [`crate::Endpoint::serve_read`]. Returns false if there is no such response.
    pub(crate) fn serve_read(&mut self, response: u64, copy: Sge) -> bool {
        let responses = self.streams.responses.as_mut();
        responses.is_some_and(|responses| responses.queue.serve(response, copy))
    }

    /// Sets whether the driver currently accepts no segments.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        self.streams.is_paused = is_paused;
    }

    /// Records that the peer receives direct placements of a path through a newer NIC queue pair.
    pub(crate) fn begin_epoch(&mut self, epoch: NicEpoch) {
        if let Some(direct) = &mut self.streams.requests.stream.direct {
            direct.begin(epoch);
        }
    }

    /// Picks the path of a packet that belongs to no batch.
    pub(crate) fn single_path(&mut self, now: Time, rails: &mut Rails) -> PathId {
        self.streams.requests.stream.single_path(now, rails)
    }

    /// An upper estimate of the round-trip time: the retransmission time-out without backoff.
    pub(crate) fn usual_round_trip(&self) -> Duration {
        self.streams.requests.stream.subflows.rto(0)
    }

    /// Picks a path of this rail for a packet that belongs to no batch.
    pub(crate) fn path_on(&mut self, now: Time, rail: RailId, rails: &mut Rails) -> PathId {
        self.streams.requests.stream.path_on(now, rail, rails)
    }

    /// Ends the streams when the queue pair leaves its endpoint.
    pub(crate) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        self.streams.dismiss(now, rails);
    }

    /// Returns the metrics of the subflows, ordered by stream, then by rail.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowMetrics> {
        self.streams.all_outgoing().zip([Stream::Requests, Stream::Responses]).flat_map(
            |(outgoing, stream)| {
                outgoing
                    .subflows
                    .by_rail()
                    .map(move |(rail, _)| metrics::of(outgoing, stream, rail))
            },
        )
    }
}
