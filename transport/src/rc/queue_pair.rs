//! A queue pair of the RC service: a [`QueuePair`], its requester and its responder.

use std::collections::VecDeque;
use std::ops::Deref;

use braid_wire::{
    Aeth, Psn, QpId, RailId, RcHeader, RcNak, RcOpcode, RcOperation, Stream, Syndrome, Time,
};

use super::config::RcRemote;
use super::congestion::RcCongestion;
use super::requester::{GoBack, RcRequester};
use super::responder::{
    AcceptedRequest, RcRejection, RcResponder, ReceivedMessage, RefusedRequest, check_local,
};
use crate::output::EventKind;
use crate::qp::{Admit, Landing, QueuePair};
use crate::{
    Access, Completion, EndCause, Ended, FailedWork, Memory, PdId, PostError, QpAttributes,
    QpError, QpState, RecvWr, Refusal, SendWr, SgList, StateError, Status, SubflowMetrics, Work,
    sg_list,
};

/// A packet that has arrived, with a right ICRC.
#[derive(Clone, Copy, Debug)]
pub struct RcArrival<'a> {
    /// The headers.
    pub header: &'a RcHeader,
    /// Bytes of the payload, at most 65,535.
    pub len: u32,
    /// Whether it carries a congestion mark (ECN CE).
    pub congestion: bool,
}

/// A packet to send. Its payload follows the headers, then its padding and the ICRC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RcTransmit {
    /// The headers.
    pub header: RcHeader,
    /// The local memory of the payload.
    pub gather: SgList,
    /// The protection domain that the memory must belong to.
    pub pd: PdId,
    /// Permissions that the memory must have.
    pub access: Access,
}

/// A connected queue pair that speaks plain RoCEv2, sans-IO. A network without loss is not needed,
/// but there is one path only, and packets that overtake others count as loss.
#[derive(Debug)]
pub struct RcQp {
    qp: QueuePair,
    requester: RcRequester,
    responder: RcResponder,
    congestion: RcCongestion,
    /// The packet whose payload is being placed.
    pending: Option<PendingPacket>,
    /// Whether a request precedes the next response.
    requests_turn: bool,
    /// Whether the end of the work that had begun is to be announced.
    is_draining: bool,
}

/// A packet whose payload is being placed.
#[derive(Clone, Copy, Debug)]
enum PendingPacket {
    Request(AcceptedRequest),
    Response(Psn),
}

impl Deref for RcQp {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.qp
    }
}

impl RcQp {
    /// Connects a queue pair in INIT to its peer and moves it to RTS.
    ///
    /// # Errors
    /// The queue pair is in another state. It comes back.
    pub fn new(mut qp: QueuePair, remote: RcRemote) -> Result<Self, Box<QueuePair>> {
        if qp.state != QpState::Init {
            return Err(Box::new(qp));
        }
        qp.state = QpState::ReadyToSend;
        Ok(RcQp {
            requester: RcRequester::new(remote, qp.config.rnr_retry),
            responder: RcResponder::new(&remote, qp.config.max_rd_atomic),
            congestion: RcCongestion::new(&remote),
            qp,
            pending: None,
            requests_turn: false,
            is_draining: false,
        })
    }

    /// Replaces the parameters of sending: `send_psn`, `max_rd_atomic`, `ack_timeout`,
    /// `retry_count` and `window`. Verbs set them in the transition to RTS, after those of
    /// receiving. Returns false, without a change, if a work request was posted before.
    pub fn set_sending(&mut self, sending: &RcRemote) -> bool {
        let is_unused = self.requester.is_unused();
        if is_unused {
            let RcRemote { qp, recv_psn, mtu, dcqcn, .. } = *self.requester.remote();
            let remote = RcRemote { qp, recv_psn, mtu, dcqcn, ..*sending };
            self.congestion.set_ack_timeout(remote.ack_timeout);
            self.requester = RcRequester::new(remote, self.qp.config.rnr_retry);
        }
        is_unused
    }

    /// Drops the connection. The queue pair keeps its state and its receives.
    pub fn into_unconnected(self) -> QueuePair {
        self.qp
    }

    /// Changes the state, except to RESET.
    ///
    /// # Errors
    /// The state machine has no such transition.
    pub fn modify(&mut self, to: QpState) -> Result<(), StateError> {
        let from = self.qp.state;
        if !from.may_become(to) || to == QpState::Reset {
            return Err(StateError { from, to });
        }
        match to {
            QpState::Error => self.enter_error(EndCause::Application.into(), None),
            _ => self.qp.state = to,
        }
        self.is_draining = to == QpState::SendQueueDrained;
        self.announce_drained();
        Ok(())
    }

    /// Moves the queue pair to ERR for a cause that the driver has detected. Returns false if the
    /// state does not allow that, or is ERR already.
    pub fn end(&mut self, cause: EndCause) -> bool {
        let receives = self.qp.state.receives();
        if receives {
            self.fail(cause.into(), None);
        }
        receives
    }

    /// Posts a work request to the send queue. In ERR it is flushed at once.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn post_send(&mut self, wr: SendWr) -> Result<(), PostError> {
        self.qp.check_send(&wr, self.requester.len())?;
        if self.qp.state == QpState::Error {
            self.qp.flush(wr.id, wr.op.work());
        } else {
            self.requester.push(wr);
        }
        Ok(())
    }

    /// Posts a receive. In ERR it is flushed at once.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn post_recv(&mut self, wr: RecvWr) -> Result<(), PostError> {
        self.qp.post_recv(wr)
    }

    /// Changes attributes, in any state.
    pub fn set_attributes(&mut self, attributes: QpAttributes) {
        self.qp.set_attributes(attributes);
        self.requester.set_rnr_retry(self.qp.config.rnr_retry);
    }

    /// Moves the work requests that have ended to the queue `to`.
    pub fn hand_over_ended(&mut self, to: &mut VecDeque<Ended>) {
        self.qp.hand_over_ended(to);
    }

    /// Returns the next work request that has ended.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.qp.ended.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<EventKind> {
        self.qp.events.pop_front()
    }

    /// The time at which [`RcQp::on_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let timers = [self.requester.next_timeout(), self.congestion.opens_at()];
        timers.into_iter().flatten().min().filter(|_| self.qp.state.receives())
    }

    /// The window, the packets in flight, and the rate of DCQCN at its last event. The rate is that
    /// of responses, too. There is no measured round trip.
    pub fn subflow(&self) -> SubflowMetrics {
        let packet = u64::from(self.requester.remote().mtu.bytes());
        SubflowMetrics {
            stream: Stream::Requests,
            rail: RailId::FIRST,
            rtt: None,
            rto: self.requester.remote().ack_timeout,
            window: self.requester.window() * packet,
            bits_per_second: self.congestion.bits_per_second(),
            in_flight: self.requester.in_flight() * packet,
        }
    }

    /// Whether the packet needs a receive that a shared receive queue has to provide first.
    pub fn lacks_receive(&self, header: &RcHeader) -> bool {
        self.qp.next_receive().is_none() && self.responder.consumes_receive(header)
    }

    /// Takes a packet. Never returns [`Admit::Singly`].
    pub fn on_arrival<M: Memory>(
        &mut self,
        now: Time,
        arrival: &RcArrival<'_>,
        memory: &M,
    ) -> Admit {
        let RcArrival { header, len, congestion } = *arrival;
        self.pending = None;
        if !self.qp.state.receives() {
            return self.refused(Refusal::State);
        }
        if congestion {
            self.on_mark(now, header);
        }
        let admit = match header.opcode.operation() {
            RcOperation::ReadResponse | RcOperation::AtomicResponse => {
                self.on_response(now, header, len, memory)
            }
            RcOperation::Acknowledge => {
                self.on_acknowledge(now, header);
                Admit::Take(Landing::Nothing)
            }
            RcOperation::Congestion => {
                self.qp.counters.cnps_received += 1;
                self.congestion.on_cnp(now);
                Admit::Take(Landing::Nothing)
            }
            _ => self.on_request(header, len, memory),
        };
        if let (Admit::Take(_), Some(_)) = (&admit, &self.pending) {
            self.qp.counters.segments_received += 1;
            self.qp.counters.bytes_received += u64::from(len);
        }
        admit
    }

    fn on_mark(&mut self, now: Time, header: &RcHeader) {
        self.qp.counters.marks_received += 1;
        // The sender of other packets would reduce a rate that they do not have.
        if header.opcode.is_paced() {
            self.congestion.on_mark(now);
        }
    }

    fn on_request<M: Memory>(&mut self, header: &RcHeader, len: u32, memory: &M) -> Admit {
        match self.responder.on_request(&self.qp, (header, len), memory.regions()) {
            Ok((landing, accepted)) => {
                self.pending = Some(PendingPacket::Request(accepted));
                Admit::Take(landing)
            }
            Err(RcRejection::Duplicate) => {
                self.qp.counters.duplicates += 1;
                Admit::Duplicate
            }
            Err(RcRejection::Refused(refusal)) => self.refused(refusal),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Admit {
        self.qp.counters.refused += 1;
        Admit::Refuse(refusal)
    }

    /// Takes a packet of the response to a READ, or the response to an atomic.
    fn on_response<M: Memory>(
        &mut self,
        now: Time,
        header: &RcHeader,
        len: u32,
        memory: &M,
    ) -> Admit {
        let is_ack = header.aeth.is_none_or(|aeth| matches!(aeth.syndrome, Syndrome::Ack(_)));
        let psn = self.requester.locate(header.psn).filter(|_| is_ack);
        let Some((psn, (work, awaited))) = psn.zip(self.requester.awaited()) else {
            self.qp.counters.duplicates += 1;
            return Admit::Duplicate;
        };
        if psn < awaited {
            self.qp.counters.duplicates += 1;
            return Admit::Duplicate;
        }
        if psn > awaited {
            // An earlier response is lost. The peer sends it again if it is asked to.
            self.acknowledge(now, awaited);
            self.go_back();
            return self.refused(Refusal::Order);
        }
        let is_atomic = header.opcode.operation() == RcOperation::AtomicResponse;
        let expected = if is_atomic { 0 } else { self.requester.response_len(work, psn) };
        if work.wr.op.is_atomic() != is_atomic || len != expected {
            self.fail_oldest(now, psn, EndCause::PeerUntrue);
            return self.refused(Refusal::Malformed);
        }
        let offset = self.requester.offset(work, psn);
        let piece = sg_list::slice(&work.wr.sges, offset, if is_atomic { 8 } else { len });
        let checked = piece.and_then(|mut pieces| {
            check_local(&self.qp, &mut pieces, memory.regions())?;
            Some(pieces)
        });
        let Some(pieces) = checked else {
            self.fail_oldest(now, psn, EndCause::LocalMemory);
            return self.refused(Refusal::Local);
        };
        self.pending = Some(PendingPacket::Response(psn));
        Admit::Take(match pieces.first() {
            Some(word) if is_atomic => Landing::Value(*word, header.original),
            _ => Landing::Payload(pieces),
        })
    }

    fn on_acknowledge(&mut self, now: Time, header: &RcHeader) {
        let Some(Aeth { syndrome, .. }) = header.aeth else { return };
        self.qp.counters.acks_received += 1;
        let Some(psn) = self.requester.locate(header.psn) else { return };
        match syndrome {
            Syndrome::Ack(_) => {
                if !self.acknowledge(now, psn.plus(1)) {
                    self.go_back();
                }
            }
            Syndrome::NotReady(code) => {
                self.qp.counters.rnr_naks += 1;
                if !self.acknowledge(now, psn) {
                    self.go_back();
                } else if !self.requester.on_not_ready(now, code) {
                    self.fail_oldest(now, psn, EndCause::PeerNotReady);
                }
            }
            Syndrome::Nak(RcNak::Sequence) => {
                self.qp.counters.lost += 1;
                self.acknowledge(now, psn);
                self.go_back();
            }
            Syndrome::Nak(code) => {
                let status = match code {
                    RcNak::RemoteAccess => Status::RemoteAccess,
                    RcNak::RemoteOperational => Status::RemoteOperational,
                    _ => Status::RemoteInvalidRequest,
                };
                self.fail_oldest(now, psn, EndCause::RefusedByPeer(status));
            }
            Syndrome::Reserved(_) => {}
        }
    }

    /// Completes the requests before `psn`. Returns false if a response before it is missing.
    fn acknowledge(&mut self, now: Time, psn: Psn) -> bool {
        let qp = &mut self.qp;
        let done =
            self.requester.acknowledge(now, psn, |work| qp.complete_send(&work.wr, work.len));
        self.announce_drained();
        done
    }

    fn go_back(&mut self) {
        if self.requester.go_back() == GoBack::Exhausted {
            self.give_up();
        }
    }

    /// Ends the connection because the peer does not answer.
    fn give_up(&mut self) {
        self.fail(EndCause::PeerSilent.into(), Some(Status::RetryExceeded));
    }

    /// Ends the connection because the request at `psn` has failed. Earlier ones have succeeded.
    fn fail_oldest(&mut self, now: Time, psn: Psn, cause: EndCause) {
        // If a response before it is missing, the READ of that response fails instead.
        self.acknowledge(now, psn);
        self.fail(cause.into(), Some(cause.status()));
    }

    /// Records that the payload of the packet taken last is in its place.
    pub fn placed<M: Memory>(&mut self, now: Time, memory: &M) {
        match self.pending.take() {
            Some(PendingPacket::Request(accepted)) => {
                if let Some(received) = self.responder.take_effect(&self.qp, accepted, memory) {
                    self.complete_receive(received);
                }
            }
            Some(PendingPacket::Response(psn)) => {
                let qp = &mut self.qp;
                let done = |work: &super::requester::SendWork| qp.complete_send(&work.wr, work.len);
                self.requester.on_response(now, psn, done);
                self.announce_drained();
            }
            None => {}
        }
    }

    fn complete_receive(&mut self, received: ReceivedMessage) {
        let Some(wr) = self.qp.take_receive() else { return };
        let ReceivedMessage { len, is_write, imm, solicited } = received;
        let completion = Completion {
            qp: self.qp.id,
            wr_id: wr.id,
            work: if is_write { Work::RecvWriteImm } else { Work::Recv },
            status: Status::Success,
            len,
            imm,
            solicited,
            source: QpId::default(),
        };
        self.qp.ended.push_back(Ended { completion, is_reported: true });
    }

    /// Runs the timers.
    pub fn on_timeout(&mut self, now: Time) {
        let outcome = self.requester.on_timeout(now).filter(|_| self.qp.state.receives());
        if let Some(outcome) = outcome {
            self.qp.counters.timeouts += 1;
            if outcome == GoBack::Exhausted {
                self.give_up();
            }
        }
    }

    /// Returns the next packet. CNPs come first. Requests and responses take turns.
    pub fn poll_transmit(&mut self, now: Time) -> Option<RcTransmit> {
        if !self.qp.state.receives() {
            return None;
        }
        if self.congestion.take_cnp() {
            return Some(self.notification());
        }
        let first = self.requests_turn;
        self.requests_turn = !first;
        let packet = match first {
            true => self.poll_request(now).or_else(|| self.poll_response(now)),
            false => self.poll_response(now).or_else(|| self.poll_request(now)),
        };
        if packet.is_none() {
            let is_held = self.is_held_back(now);
            self.congestion.hold(is_held);
        }
        if let Some(RefusedRequest { cause, receive }) = self.responder.due_end() {
            if let (Some(status), Some(wr)) = (receive, self.qp.next_receive()) {
                let id = wr.id;
                self.qp.take_receive();
                self.qp.complete_failed(id, Work::Recv, status);
            }
            self.fail(cause.into(), None);
        }
        packet
    }

    /// Whether the rate holds a packet back.
    fn is_held_back(&self, now: Time) -> bool {
        let may_begin = self.qp.state == QpState::ReadyToSend;
        !self.congestion.is_open(now)
            && (self.requester.has_unsent(may_begin) || self.responder.responses.is_read_next())
    }

    /// A congestion notification packet.
    fn notification(&mut self) -> RcTransmit {
        self.qp.counters.cnps_sent += 1;
        let to = self.requester.remote().qp;
        RcTransmit {
            header: RcHeader::new(RcOpcode::CongestionNotification, to, 0),
            gather: SgList::new(),
            pd: self.qp.config.pd,
            access: Access::NONE,
        }
    }

    fn poll_request(&mut self, now: Time) -> Option<RcTransmit> {
        let may_begin = self.qp.state == QpState::ReadyToSend;
        if !self.congestion.is_open(now) {
            return None;
        }
        let ask_every = self.congestion.packets_before_timeout(now);
        let request = self.requester.poll(now, may_begin, ask_every)?;
        self.congestion.on_sent(now, &request.header, sg_list::total_len(&request.gather));
        let counters = &mut self.qp.counters;
        counters.segments_sent += 1;
        counters.retransmitted += u64::from(request.is_retransmission);
        counters.bytes_sent += sg_list::total_len(&request.gather);
        let (pd, access) = (self.qp.config.pd, Access::NONE);
        Some(RcTransmit { header: request.header, gather: request.gather, pd, access })
    }

    fn poll_response(&mut self, now: Time) -> Option<RcTransmit> {
        if self.responder.responses.is_read_next() && !self.congestion.is_open(now) {
            return None;
        }
        let response = self.responder.responses.poll()?;
        let counters = &mut self.qp.counters;
        match response.header.opcode.operation() {
            RcOperation::ReadResponse => {
                let len = sg_list::total_len(&response.gather);
                counters.segments_sent += 1;
                counters.bytes_sent += len;
                self.congestion.on_sent(now, &response.header, len);
            }
            _ => counters.acks_sent += 1,
        }
        let (pd, access) = (self.qp.config.pd, Access::REMOTE_READ);
        Some(RcTransmit { header: response.header, gather: response.gather, pd, access })
    }

    /// Handles a packet of [`RcQp::poll_transmit`] whose memory may not be read any more.
    pub fn unreadable(&mut self, header: &RcHeader) {
        if !header.opcode.is_request() {
            return self.responder.abandon(header.psn);
        }
        let Some(failed) = self.requester.index_of(header.psn) else { return };
        for _ in 0..failed {
            if let Some(work) = self.requester.pop() {
                self.qp.flush(work.wr.id, work.wr.op.work());
            }
        }
        self.fail(EndCause::LocalMemory.into(), Some(Status::LocalProtection));
    }

    /// Ends the connection and tells the application. `status`: of the oldest work request, if it
    /// has failed.
    fn fail(&mut self, error: QpError, status: Option<Status>) {
        self.enter_error(error, status);
        let error = self.qp.error.unwrap_or(error);
        self.qp.events.push_back(EventKind::Ended(error));
    }

    /// Enters ERR. Both queues are flushed in order.
    fn enter_error(&mut self, mut error: QpError, status: Option<Status>) {
        if self.qp.state == QpState::Error {
            return;
        }
        self.pending = None;
        if let Some(status) = status
            && let Some(work) = self.requester.pop()
        {
            let (wr_id, work) = (work.wr.id, work.wr.op.work());
            error.work = Some(FailedWork { wr_id, work, status });
            self.qp.complete_failed(wr_id, work, status);
        }
        while let Some(work) = self.requester.pop() {
            self.qp.flush(work.wr.id, work.wr.op.work());
        }
        self.qp.enter_error(error);
    }

    /// Announces that no work that had begun before SQD is left.
    fn announce_drained(&mut self) {
        if self.is_draining && !self.requester.is_busy() {
            self.is_draining = false;
            self.qp.events.push_back(EventKind::Drained);
        }
    }
}
