//! One reliable connected queue pair.
//!
//! It sends two streams, requests and responses, each with PSNs, window and timers of its own, and
//! receives the peer's two. [`arrive`] takes packets in, [`transmit`] lets them out, [`run`] several of them at once, [`acks`] learns
//! what has arrived, [`fail`] ends things badly.

mod acks;
mod ahead;
mod arrive;
mod asks;
mod attributes;
mod chunks;
mod congestion;
mod coverage;
mod credit;
mod degrees;
mod describe;
mod direct;
mod disconnect;
mod ended;
mod events;
mod fail;
mod heard;
mod implied;
mod incoming;
mod link;
mod marks;
mod metrics;
mod offer;
mod outgoing;
mod owed;
mod pacer;
mod paws;
mod peak;
mod per_path;
mod per_rail;
mod psn_set;
mod quantum;
mod recovery;
mod recv_queue;
mod refusal;
mod refusals;
mod reordering_window;
mod responses;
mod room;
mod rtt;
mod run;
mod scatter;
mod segment;
mod send_queue;
mod shortest;
mod spurious;
mod state;
mod subflow;
mod subflows;
mod suspects;
mod tail;
mod timeouts;
mod transmit;
mod window;
mod withheld;

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::{RailSet, Rails};
use braid_wire::{PathId, QpId, RailId, Time, Token};

pub use arrive::{Admit, Arrival, Landing};
pub use degrees::OooDegrees;
pub use direct::{NicEpoch, Placement};
pub(crate) use marks::MarkSample;
pub use metrics::SubflowMetrics;
pub use offer::OfferTerms;
pub(crate) use peak::Peak;
pub(crate) use per_rail::{RailBytes, RailPayloads};
pub(crate) use quantum::OpenBatch;
pub use recovery::{LossRecovery, UnknownRecovery};
pub use refusal::Refusal;
pub(crate) use room::{Allowance, Need};
pub use state::QpState;
pub(crate) use subflow::least_batch;
pub(crate) use transmit::{Budget, Outcome, Packet};

use self::incoming::Incoming;
use self::link::Link;
use self::outgoing::{Outgoing, Timeout};
use self::recv_queue::RecvQueue;
use self::send_queue::SendQueue;
use crate::endpoint::EventKind;
use crate::{
    Egress, EndCause, Ended, EndpointConfig, PostError, QpConfig, QpError, RecvWr, Remote, SendWr,
    StateError, Work,
};

/// Entries that a queue keeps room for when it is idle.
const KEPT: usize = 8;

/// A reliable connected queue pair, sans-IO. Before it is connected its owner holds it; afterwards
/// it lives in an [`crate::Endpoint`], all access to it goes through that.
#[derive(Debug)]
pub struct QueuePair {
    id: QpId,
    token: Token,
    config: QpConfig,
    state: QpState,
    link: Option<Box<Link>>,
    sq: SendQueue,
    rq: RecvQueue,
    ended: VecDeque<Ended>,
    events: VecDeque<EventKind>,
    /// Why it is in ERR.
    error: Option<QpError>,
    /// It has ended, and the peer has not been told.
    disconnects: bool,
    /// A DISCONNECT left the peer by that port, and is to be confirmed by the like.
    confirms: Option<Egress>,
    /// A SEND was longer than its receive; that receive ends with a length error.
    too_long: bool,
    counters: QpCounters,
    /// Made when the first packet comes out of order.
    degrees: Option<Box<OooDegrees>>,
}

/// What a queue pair has seen since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct QpCounters {
    /// Data segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Segments taken for lost.
    pub lost: u64,
    /// Retransmissions that turned out to have been unnecessary: the peer has had the segment twice.
    pub spurious: u64,
    /// Congestion marks (ECN CE) that the peer has seen on what was sent.
    pub ecn_marks: u64,
    /// Payload bytes in segments sent.
    pub bytes_sent: u64,
    /// Data segments taken.
    pub segments_received: u64,
    /// Payload bytes in segments taken.
    pub bytes_received: u64,
    /// Segments that had been taken before.
    pub duplicates: u64,
    /// Segments taken ahead of the ePSN.
    pub out_of_order: u64,
    /// Segments refused: beyond the window, forbidden, malformed.
    pub refused: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements received.
    pub acks_received: u64,
    /// "Receiver not ready" received.
    pub rnr_naks: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Acknowledgements of what had never left, each of which ended the queue pair.
    pub untrue_acks: u64,
}

impl std::ops::AddAssign for QpCounters {
    fn add_assign(&mut self, other: Self) {
        self.segments_sent += other.segments_sent;
        self.retransmitted += other.retransmitted;
        self.lost += other.lost;
        self.spurious += other.spurious;
        self.ecn_marks += other.ecn_marks;
        self.bytes_sent += other.bytes_sent;
        self.segments_received += other.segments_received;
        self.bytes_received += other.bytes_received;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.refused += other.refused;
        self.acks_sent += other.acks_sent;
        self.acks_received += other.acks_received;
        self.rnr_naks += other.rnr_naks;
        self.timeouts += other.timeouts;
        self.untrue_acks += other.untrue_acks;
    }
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
        let resend = link.all_outgoing().map(Outgoing::next_timeout);
        resend
            .chain(link.all_incoming().map(Incoming::ack_deadline))
            .min()
            .unwrap_or(Time::FAR_FUTURE)
    }

    /// When the rate lets out what it holds back now; [`Time::FAR_FUTURE`]: it holds nothing back.
    pub(crate) fn paced_until(&self) -> Time {
        let Some(link) = self.link.as_ref().filter(|link| !link.is_paused) else {
            return Time::FAR_FUTURE;
        };
        link.all_outgoing().map(Outgoing::paced_until).min().unwrap_or(Time::FAR_FUTURE)
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
            self.ended.shrink_to(KEPT);
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
}
