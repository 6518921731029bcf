//! A reliable connected queue pair: its state, its receive queue, and what it hands out.

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::{RailSet, Rails};
use braid_wire::{Crc, Offer, PathId, QpId, RailId, Stream, Time, Token};

use super::link::Link;
use super::metrics::{self, QpCounters, SubflowMetrics};
use super::recv_queue::RecvQueue;
use crate::idle::KEPT_ENTRIES;
use crate::output::EventKind;
use crate::stream::marks::MarkSample;
use crate::stream::per_rail::RailPayloads;
use crate::stream::recv::recv_stream::RecvStream;
use crate::stream::recv::reordering_extent::OooDegrees;
use crate::stream::send::direct::NicEpoch;
use crate::stream::send::send_queue::SendQueue;
use crate::stream::send::send_stream::{SendStream, Timeout};
use crate::{
    Completion, Egress, EndCause, Ended, EndpointConfig, MAX_TIMER, PostError, QpAttributes,
    QpConfig, QpError, QpState, RecvWr, Remote, SendWr, StateError, Status, Work,
};

/// A reliable connected queue pair, sans-IO. Before it is connected its owner holds it; afterwards
/// it lives in an [`crate::Endpoint`], all access to it goes through that.
#[derive(Debug)]
pub struct QueuePair {
    pub(super) id: QpId,
    pub(super) token: Token,
    pub(super) config: QpConfig,
    pub(super) state: QpState,
    pub(super) link: Option<Box<Link>>,
    pub(super) sq: SendQueue,
    pub(super) rq: RecvQueue,
    pub(super) ended: VecDeque<Ended>,
    pub(super) events: VecDeque<EventKind>,
    /// Why it is in ERR.
    pub(super) error: Option<QpError>,
    /// It has ended, and the peer has not been told.
    pub(super) disconnects: bool,
    /// A DISCONNECT left the peer by that port, and is to be confirmed by the like.
    pub(super) confirms: Option<Egress>,
    /// A SEND was longer than its receive; that receive ends with a length error.
    pub(super) too_long: bool,
    pub(super) counters: QpCounters,
    /// Made when the first packet comes out of order.
    pub(super) degrees: Option<Box<OooDegrees>>,
}

/// What an offer says of the driver, whichever queue pair it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferTerms {
    /// Names the process and engine; see [`Offer::instance`].
    pub instance: u64,
    /// Payload bytes of the largest segment that the way to the peer may carry.
    pub mtu: u16,
    /// Bytes that are received before they are looked at.
    pub receive_buffer: u32,
    /// Whether payloads are to carry a check.
    pub crc: Crc,
}

impl QueuePair {
    /// A queue pair in RESET.
    pub fn new(id: QpId, token: Token, config: QpConfig) -> Self {
        QueuePair {
            id,
            token,
            config,
            state: QpState::Reset,
            link: None,
            sq: SendQueue::default(),
            rq: RecvQueue::default(),
            ended: VecDeque::new(),
            events: VecDeque::new(),
            error: None,
            disconnects: false,
            confirms: None,
            too_long: false,
            counters: QpCounters::default(),
            degrees: None,
        }
    }

    /// Its number.
    pub fn id(&self) -> QpId {
        self.id
    }

    /// What packets towards it have to carry.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Why it is in ERR; `None` in any other state.
    pub fn error(&self) -> Option<QpError> {
        self.error
    }

    /// How it was told to behave.
    pub fn config(&self) -> &QpConfig {
        &self.config
    }

    /// The other end, once connected.
    pub fn remote(&self) -> Option<&Remote> {
        self.link.as_ref().map(|link| &link.remote)
    }

    /// Payload bytes of a full segment, as agreed and as the paths carry by now: on the rail in use that carries most; `None` before
    /// it is connected.
    pub fn segment_payload(&self) -> Option<u16> {
        self.link.as_ref().map(|link| link.mtu())
    }

    /// What it has seen.
    pub fn counters(&self) -> QpCounters {
        self.counters
    }

    /// How far out of order packets have come; `None`: none has.
    pub fn ooo_degrees(&self) -> Option<&OooDegrees> {
        self.degrees.as_deref()
    }

    /// Smoothed round-trip time of its requests, once measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.link.as_ref().and_then(|link| link.requests.smoothed_rtt())
    }

    /// Changes the state. RTR and RTS are reached by connecting; RESET forgets everything, also
    /// work requests, without a completion.
    pub fn modify(&mut self, to: QpState) -> Result<(), StateError> {
        let from = self.state;
        let needs_peer = matches!(to, QpState::ReadyToReceive | QpState::ReadyToSend);
        if !from.may_become(to) || (needs_peer && self.link.is_none()) {
            return Err(StateError { from, to });
        }
        match to {
            QpState::Reset => {
                *self = QueuePair::new(self.id, self.token, self.config.clone());
            }
            QpState::Error => self.enter_error(EndCause::Application.into()),
            QpState::SendQueueDrained => {
                self.state = to;
                self.announce_drained();
            }
            _ => self.state = to,
        }
        Ok(())
    }

    /// ERR, because of something that the driver has found. False: it may not go there, or is there.
    pub fn end(&mut self, cause: EndCause) -> bool {
        if self.state == QpState::Error || !self.state.may_become(QpState::Error) {
            return false;
        }
        self.enter_error(cause.into());
        self.events.push_back(EventKind::Ended(cause.into()));
        true
    }

    /// Connects to the other end: RTS.
    pub(crate) fn connect(&mut self, remote: Remote, endpoint: &EndpointConfig, rails: &mut Rails) {
        self.link = Some(Box::new(Link::new(remote, self.token, &self.config, endpoint, rails)));
        self.state = QpState::ReadyToSend;
    }

    /// Queues work for the send queue. In ERR it is flushed at once.
    pub fn post_send(&mut self, wr: SendWr) -> Result<(), PostError> {
        let state = self.state;
        if !state.accepts_send() {
            return Err(PostError::State { state, queue: "send" });
        }
        let capacity = self.config.max_send_wr;
        if self.sq.len() >= capacity as usize {
            return Err(PostError::QueueFull { capacity, queue: "send" });
        }
        wr.check()?;
        if state == QpState::Error {
            self.flush(wr.id, wr.op.work());
        } else {
            self.sq.push(wr);
        }
        Ok(())
    }

    /// Queues a receive. In ERR it is flushed at once.
    pub fn post_recv(&mut self, wr: RecvWr) -> Result<(), PostError> {
        let state = self.state;
        if !state.accepts_recv() {
            return Err(PostError::State { state, queue: "receive" });
        }
        let capacity = self.config.max_recv_wr;
        if self.rq.len() >= capacity as usize {
            return Err(PostError::QueueFull { capacity, queue: "recv" });
        }
        if state == QpState::Error {
            self.flush(wr.id, Work::Recv);
        } else {
            self.rq.push(wr);
        }
        Ok(())
    }

    pub(crate) fn poll_event(&mut self) -> Option<EventKind> {
        self.events.pop_front()
    }

    /// Bytes in flight that the peer's receive buffer of a rail may hold, both streams.
    pub(crate) fn in_flight(&self, rail: RailId) -> u64 {
        let Some(link) = self.link.as_ref() else { return 0 };
        link.all_outgoing().map(|outgoing| outgoing.in_flight(rail)).sum()
    }

    /// When [`QueuePair::on_timeout`] wants to be called; [`Time::FAR_FUTURE`]: never.
    pub(crate) fn next_timeout(&self) -> Time {
        let Some(link) = self.link.as_ref() else { return Time::FAR_FUTURE };
        let resend = link.all_outgoing().map(SendStream::next_timeout);
        resend
            .chain(link.all_incoming().map(RecvStream::ack_deadline))
            .min()
            .unwrap_or(Time::FAR_FUTURE)
    }

    /// When the rate lets out what it holds back now; [`Time::FAR_FUTURE`]: it holds nothing back.
    pub(crate) fn paced_until(&self) -> Time {
        let Some(link) = self.link.as_ref().filter(|link| !link.is_paused) else {
            return Time::FAR_FUTURE;
        };
        link.all_outgoing().map(SendStream::paced_until).min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Returns whether a retransmission has timed out; `longest`: the longest round trip of late, of whatever queue pair.
    pub(crate) fn on_timeout(&mut self, now: Time, longest: Duration, rails: &mut Rails) -> bool {
        let Some(link) = self.link.as_mut() else { return false };
        link.all_incoming_mut().for_each(|stream| stream.on_timeout(now));
        let (mut gives_up, before) = (false, self.counters.timeouts);
        for stream in link.all_outgoing_mut() {
            let outcome = stream.on_timeout(now, longest, self.config.retry_timeout, rails);
            let is_timeout = matches!(outcome, Timeout::Resend(_) | Timeout::GiveUp);
            self.counters.timeouts += u64::from(is_timeout);
            match outcome {
                Timeout::None => {}
                Timeout::Resend(lost) | Timeout::Tail(lost) => self.counters.lost += lost,
                Timeout::GiveUp => gives_up = true,
            }
        }
        if gives_up {
            self.give_up(EndCause::PeerSilent);
        }
        self.trim();
        self.counters.timeouts > before
    }

    /// No segment that is sent for the first time on a rail holds more than `payloads` say from now on.
    pub(crate) fn use_path_mtu(&mut self, payloads: RailPayloads, endpoint: &EndpointConfig) {
        if let Some(link) = self.link.as_mut() {
            link.use_path_mtu(payloads, endpoint);
        }
    }

    /// Congestion marks on these rails say nothing from now on.
    pub(crate) fn leave_marks_unheeded(&mut self, rails: RailSet) {
        if let Some(link) = self.link.as_mut() {
            link.leave_marks_unheeded(rails);
        }
    }

    /// Makes the controllers of these rails begin anew: they have cut their windows for nothing.
    pub(crate) fn restart_controllers(&mut self, rails: RailSet) {
        let Some(link) = self.link.as_mut().filter(|_| !rails.is_empty()) else { return };
        let remote = link.remote;
        for outgoing in link.all_outgoing_mut() {
            outgoing.restart_controllers(rails, &self.config, &remote);
        }
    }

    /// Takes the last sample of a rail's marks.
    pub(crate) fn take_mark_sample(&mut self) -> Option<(RailId, MarkSample)> {
        let link = self.link.as_mut()?;
        link.all_outgoing_mut().find_map(|stream| stream.marks.take_sample())
    }

    /// Gives back what a burst has made its queues grow to, once nothing is under way any more. The
    /// time-out that was set for the burst brings us here: a time-out later, so never between the
    /// messages of a busy queue pair.
    fn trim(&mut self) {
        let Some(link) = self.link.as_mut() else { return };
        if link.all_outgoing().all(|stream| stream.window.is_empty()) {
            link.trim();
            self.sq.trim();
            self.rq.trim();
            self.ended.shrink_to(KEPT_ENTRIES);
        }
    }

    /// Whether the driver takes no segments.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        if let Some(link) = self.link.as_mut() {
            link.is_paused = is_paused;
        }
    }

    /// The peer receives what is placed directly on a path with a newer NIC queue pair.
    pub(crate) fn begin_epoch(&mut self, epoch: NicEpoch) {
        let link = self.link.as_mut();
        if let Some(direct) = link.and_then(|link| link.requests.direct.as_mut()) {
            direct.begin(epoch);
        }
    }

    /// The path of a packet that belongs to no batch.
    pub(crate) fn single_path(&mut self, now: Time, rails: &mut Rails) -> PathId {
        self.link
            .as_mut()
            .map_or_else(PathId::default, |link| link.requests.single_path(now, rails))
    }

    /// A long round trip of those that it has measured.
    pub(crate) fn usual_round_trip(&self) -> Duration {
        self.link.as_ref().map_or(Duration::ZERO, |link| link.requests.subflows.rto(0))
    }

    /// A path of this rail, for such a packet.
    pub(crate) fn path_on(&mut self, now: Time, rail: RailId, rails: &mut Rails) -> PathId {
        let path = PathId::default().on(rail);
        self.link.as_mut().map_or(path, |link| link.requests.path_on(now, rail, rails))
    }

    /// It leaves its endpoint.
    pub(crate) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        if let Some(link) = self.link.as_mut() {
            link.dismiss(now, rails);
        }
    }

    /// The offer of an attempt to connect it, or to accept with it: INIT. Every attempt needs a `token` of its own: what
    /// the peer makes of an earlier one, however late, is not taken for a part of this. `psn` is the first that it will
    /// send (24 bits). Both have to be unpredictable.
    ///
    /// # Errors
    /// It is neither in RESET nor in INIT.
    pub fn offer(
        &mut self,
        token: Token,
        psn: u32,
        terms: &OfferTerms,
    ) -> Result<Offer, StateError> {
        if self.state != QpState::Init {
            self.modify(QpState::Init)?;
        }
        self.token = token;
        Ok(Offer {
            qp: self.id,
            token,
            psn: psn & 0xFF_FFFF,
            instance: terms.instance,
            mtu: terms.mtu,
            receive_buffer: terms.receive_buffer,
            window: self.config.window.clamp(1, 4096),
            max_rd_atomic: self.config.max_rd_atomic.max(1),
            crc: terms.crc,
        })
    }

    /// Changes it, in any state.
    pub fn set_attributes(&mut self, attributes: QpAttributes) {
        let QpAttributes { access, retry_timeout, rnr_retry, rnr_delay } = attributes;
        let config = &mut self.config;
        (config.access, config.rnr_retry) = (access, rnr_retry);
        config.retry_timeout = retry_timeout.min(MAX_TIMER);
        config.rnr_delay = rnr_delay.min(MAX_TIMER);
    }

    /// The next work request that has ended, in order for each of the two queues.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// The same of all that there are, at once.
    pub(crate) fn hand_over_ended(&mut self, to: &mut VecDeque<Ended>) {
        to.append(&mut self.ended);
    }

    pub(crate) fn has_ended_work(&self) -> bool {
        !self.ended.is_empty()
    }

    /// A send has ended well.
    pub(super) fn complete_send(&mut self, wr: &SendWr, len: u32) {
        let (qp, wr_id, work) = (self.id, wr.id, wr.op.work());
        let (status, imm, solicited) = (Status::Success, None, false);
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited };
        self.ended.push_back(Ended { completion, is_reported: wr.signalled });
    }

    /// It did not end well, which is always reported.
    pub(super) fn complete_failed(&mut self, wr_id: u64, work: Work, status: Status) {
        let (qp, len, imm, solicited) = (self.id, 0, None, true);
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited };
        self.ended.push_back(Ended { completion, is_reported: true });
    }

    pub(super) fn flush(&mut self, wr_id: u64, work: Work) {
        self.complete_failed(wr_id, work, Status::Flushed);
    }

    /// Its subflows: by stream, then by rail; none before it is connected.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowMetrics> {
        let streams = self.link.iter().flat_map(|link| link.all_outgoing());
        streams.zip([Stream::Requests, Stream::Responses]).flat_map(|(outgoing, stream)| {
            outgoing.subflows.by_rail().map(move |(rail, _)| metrics::of(outgoing, stream, rail))
        })
    }
}
