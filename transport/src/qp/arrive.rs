//! Incoming data packets: checks whether a packet is new and permitted, and where it lands.

use braid_wire::{DataHeader, NakCode, Opcode, PathId, Psn, QpId, Stream, Time};

use super::connected::ConnectedQp;
use crate::sg_list;
use crate::stream::psn_run::PsnRun;
use crate::stream::recv::effect::{Effect, Received};
use crate::stream::recv::recv_stream::PsnPlace;
use crate::stream::send::response_queue::Body;
use crate::{
    Access, Arrival, AtomicOp, Completion, EndCause, Ended, LossRecovery, Memory, Refusal, Regions,
    SgList, Sge, Status, Work,
};

/// Decision about an incoming run of packets.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Admit {
    /// Place the payloads as the landing says, then call [`crate::Endpoint::placed`].
    Take(Landing),
    /// Hand in each packet of the run by itself. So far the run has had no effect. A single packet
    /// never gets this decision.
    Singly,
    /// Drop the packet: it was accepted before.
    Duplicate,
    /// Drop the packet: it is refused.
    Refuse(Refusal),
}

impl Admit {
    /// Whether the next acknowledgement repeats an earlier one. If the packet is a retransmission,
    /// the earlier acknowledgement may have been lost.
    pub(crate) fn repeats_an_answer(&self) -> bool {
        matches!(self, Admit::Duplicate | Admit::Refuse(Refusal::NotReady))
    }
}

/// The memory in which a packet lands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Landing {
    /// The payload goes to these pieces of local memory, in order. The pieces are checked, and
    /// together they are as long as the payload.
    Payload(SgList),
    /// The value goes to these 8 bytes of local memory, in native byte order.
    Value(Sge, u64),
    /// There is nothing to place.
    Nothing,
}

type Verdict = Result<(Landing, Option<Effect>), Refusal>;

/// The reason for not taking packets.
pub(super) enum Rejection {
    /// One was accepted before.
    Duplicate,
    Refused(Refusal),
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Rejection::Refused(refusal)
    }
}

impl ConnectedQp {
    pub(crate) fn on_arrival(
        &mut self,
        now: Time,
        arrival: &Arrival<'_>,
        regions: &Regions,
    ) -> Admit {
        let header = arrival.header;
        let stream = stream_of(header.opcode);
        let psns = match self.examine(now, stream, arrival) {
            Ok(psns) => psns,
            Err((psn, rejection)) => return self.turn_down(now, stream, psn, arrival, rejection),
        };
        match self.admit(header, regions) {
            Ok((landing, event)) => self.take(now, stream, psns, arrival, landing, event),
            Err(refusal) => self.turn_down(now, stream, psns.first, arrival, refusal.into()),
        }
    }

    /// Checks whether all packets are new, and whether the stream accepts them. Returns their PSNs.
    /// The error names the first PSN.
    #[inline(always)]
    pub(super) fn examine(
        &mut self,
        now: Time,
        stream: Stream,
        arrival: &Arrival<'_>,
    ) -> Result<PsnRun, (Psn, Rejection)> {
        let header = arrival.header;
        if header.token != self.qp.token {
            return Err((Psn::default(), Refusal::Token.into()));
        }
        let incoming = self.streams.arriving(stream, &self.qp.config);
        let first = Psn::expand(header.psn, incoming.epsn());
        let psns = PsnRun { first, count: arrival.segments };
        let refused = |refusal| Err((first, Rejection::Refused(refusal)));
        // A PSN outside of the window has no effect, so that an attacker who knows the queue pair
        // number and the token must also guess the PSN.
        let place = match incoming.locate(psns, self.qp.config.window) {
            Ok(place) => place,
            Err(refusal) => return refused(refusal),
        };
        if incoming.is_stale(now, psns, (header.stamp, arrival.stamp)) {
            return refused(Refusal::Stale);
        }
        if !self.qp.state.receives() {
            return refused(Refusal::State);
        }
        if place == PsnPlace::Duplicate {
            return Err((first, Rejection::Duplicate));
        }
        if incoming.is_barred(psns.last()) {
            return refused(Refusal::Barred);
        }
        if self.qp.config.recovery == LossRecovery::GoBackN && first != incoming.epsn() {
            return refused(Refusal::Order);
        }
        Ok(psns)
    }

    #[inline(always)]
    fn take(
        &mut self,
        now: Time,
        stream: Stream,
        psns: PsnRun,
        arrival: &Arrival<'_>,
        landing: Landing,
        event: Option<Effect>,
    ) -> Admit {
        let header = arrival.header;
        let Some(incoming) = self.streams.incoming(stream) else {
            return self.refused(Refusal::State);
        };
        incoming.record(now, arrival);
        let event = event.filter(|_| header.last);
        let ahead = incoming.insert(now, psns, header.stamp, event);
        self.qp.counters.segments_received += u64::from(psns.count);
        self.qp.counters.bytes_received += u64::from(header.len);
        if ahead > 0 {
            self.qp.counters.out_of_order += u64::from(psns.count);
            let degrees = self.qp.degrees.get_or_insert_default();
            (0..u64::from(psns.count)).for_each(|further| degrees.record(ahead + further));
        }
        Admit::Take(landing)
    }

    /// Lets a single packet that is not taken have its effect. A run has none.
    fn turn_down(
        &mut self,
        now: Time,
        stream: Stream,
        psn: Psn,
        arrival: &Arrival<'_>,
        rejection: Rejection,
    ) -> Admit {
        if arrival.segments > 1 {
            return Admit::Singly;
        }
        let refusal = match rejection {
            Rejection::Refused(refusal) if refusal.is_foreign() => return self.refused(refusal),
            Rejection::Refused(refusal) => Some(refusal),
            Rejection::Duplicate => None,
        };
        if let Some(incoming) = self.streams.incoming(stream) {
            incoming.record(now, arrival);
            match refusal {
                None => incoming.count_duplicate(arrival.header.retransmission),
                Some(Refusal::Order) => incoming.pass_over(psn),
                Some(Refusal::NotReady) => incoming.refuse_for_now(now, psn),
                Some(refusal) => match refusal.nak() {
                    Some(code) => incoming.refuse(code, psn),
                    None => incoming.ack_now(),
                },
            }
        }
        let Some(refusal) = refusal else {
            self.qp.counters.duplicates += 1;
            return Admit::Duplicate;
        };
        self.too_long |= refusal == Refusal::TooLong;
        self.settle_refusal();
        self.refused(refusal)
    }

    fn refused(&mut self, refusal: Refusal) -> Admit {
        self.qp.counters.refused += 1;
        Admit::Refuse(refusal)
    }

    /// The path of the last acknowledgement of the stream to which packets with this opcode belong.
    pub(crate) fn acked_by(&self, opcode: Opcode) -> Option<PathId> {
        let streams = &self.streams;
        let mut incoming = streams.all_incoming();
        incoming.find(|incoming| incoming.stream() == stream_of(opcode))?.acked_by()
    }

    /// Returns the number of receives to post before the packet can be accepted: one for its
    /// message, and one for each earlier message that has none. Returns 0 if that exceeds the
    /// window, because more packets cannot be in flight.
    fn missing_receives(&self, arrival: &Arrival<'_>) -> usize {
        let header = arrival.header;
        let consumes = match header.opcode {
            Opcode::Send | Opcode::SendImm => true,
            // The final segment consumes the receive. At the end of a run it may be a duplicate.
            Opcode::WriteImm => header.last && arrival.segments == 1,
            _ => false,
        };
        if !consumes || !self.qp.state.receives() || !self.is_awaited(header) {
            return 0;
        }
        let missing = self.qp.rq.missing(header.number);
        if missing > self.qp.config.window.into() { 0 } else { missing as usize }
    }

    /// Returns the number of receives to move from a shared receive queue to this queue pair before
    /// packets are handed in. The queue pair holds `held` receives that it took earlier. The
    /// shared receive queue has `left`.
    ///
    /// A queue pair may always hold one receive. It may hold more only if at least as many remain
    /// in the shared receive queue. A packet that needs more has overtaken others and is refused
    /// for now: the result is 0.
    pub fn shared_receives(&self, arrival: &Arrival<'_>, held: usize, left: usize) -> usize {
        let missing = self.missing_receives(arrival);
        let held = held + missing;
        let keeps_too_many = held > 1 && held + missing > left;
        if keeps_too_many { 0 } else { missing.min(left) }
    }

    /// Whether a packet with this PSN (24 bits) may be the peer's, on either stream. It must be
    /// within a window of the expected PSN, ahead of it or behind it.
    pub fn is_within_window(&self, psn: u32) -> bool {
        self.streams.is_within_window(psn, self.qp.config.window)
    }

    /// Whether the packet is new and its PSN permits accepting it.
    fn is_awaited(&self, header: &DataHeader) -> bool {
        let streams = &self.streams;
        let incoming = &streams.from_requests;
        let psn = Psn::expand(header.psn, incoming.epsn());
        incoming.locate(psn.into(), self.qp.config.window) == Ok(PsnPlace::New)
            && !incoming.is_barred(psn)
            && (self.qp.config.recovery != LossRecovery::GoBackN || psn == incoming.epsn())
    }

    /// Returns where the packet lands and the effect of its message, or the reason to refuse it.
    fn admit(&mut self, header: &DataHeader, regions: &Regions) -> Verdict {
        match header.opcode {
            Opcode::Send | Opcode::SendImm => self.admit_send(header, regions),
            Opcode::Write | Opcode::WriteImm => self.admit_write(header, regions),
            Opcode::ReadRequest => self.admit_read(header, regions),
            Opcode::CompareSwap | Opcode::FetchAdd => self.admit_atomic(header, regions),
            Opcode::ReadResponse | Opcode::AtomicResponse => self.admit_response(header, regions),
            _ => Err(Refusal::Malformed),
        }
    }

    fn admit_send(&mut self, header: &DataHeader, regions: &Regions) -> Verdict {
        let seq = self.qp.rq.expand(header.number).ok_or(Refusal::Malformed)?;
        let posted = self.qp.rq.get(seq).ok_or(Refusal::NotReady)?;
        if u64::from(header.message_len) > posted.capacity {
            return Err(Refusal::TooLong);
        }
        let pieces = sg_list::slice(&posted.wr.sges, header.offset, header.len.into());
        let mut pieces = pieces.ok_or(Refusal::Malformed)?;
        self.check_local(&mut pieces, regions)?;
        self.qp.rq.cover(seq, header)?;
        Ok((Landing::Payload(pieces), Some(Effect::Receive(received(header, seq, false)))))
    }

    fn admit_write(&mut self, header: &DataHeader, regions: &Regions) -> Verdict {
        let needed = Access::REMOTE_WRITE;
        let message = self.check_remote(header, header.message_len, needed, regions)?;
        let mut event = None;
        if header.opcode == Opcode::WriteImm && header.last {
            let seq = self.qp.rq.expand(header.number).ok_or(Refusal::Malformed)?;
            self.qp.rq.get(seq).ok_or(Refusal::NotReady)?;
            self.qp.rq.consume(seq, header)?;
            event = Some(Effect::Receive(received(header, seq, true)));
        }
        let addr = message.wrapping_add(header.offset.into());
        let mut pieces = SgList::new();
        if header.len > 0 {
            pieces.push(Sge { addr, len: header.len.into(), lkey: header.rkey });
        }
        Ok((Landing::Payload(pieces), event))
    }

    fn admit_read(&self, header: &DataHeader, regions: &Regions) -> Verdict {
        self.check_remote(header, header.message_len, Access::REMOTE_READ, regions)?;
        self.check_answerable()?;
        let (number, addr) = (header.number, header.address);
        let event = Effect::Read { number, addr, rkey: header.rkey, len: header.message_len };
        Ok((Landing::Nothing, Some(event)))
    }

    fn admit_atomic(&self, header: &DataHeader, regions: &Regions) -> Verdict {
        let operands = header.operands.ok_or(Refusal::Malformed)?;
        let word = self.check_remote(header, 8, Access::REMOTE_ATOMIC, regions)?;
        if !(header.address | word).is_multiple_of(8) {
            return Err(Refusal::Alignment(header.address));
        }
        self.check_answerable()?;
        let op = match header.opcode {
            Opcode::CompareSwap => AtomicOp::CompareSwap(operands),
            _ => AtomicOp::FetchAdd(operands),
        };
        let (number, addr, rkey) = (header.number, header.address, header.rkey);
        Ok((Landing::Nothing, Some(Effect::Atomic { number, addr, rkey, op })))
    }

    fn admit_response(&mut self, header: &DataHeader, regions: &Regions) -> Verdict {
        let (seq, entry) =
            self.streams.requests.queue.awaiting(header.number).ok_or(Refusal::Malformed)?;
        let event = Some(Effect::Response { seq });
        if entry.wr.op.is_atomic() != (header.opcode == Opcode::AtomicResponse) {
            return Err(Refusal::Malformed);
        }
        if entry.wr.op.is_atomic() {
            // The response has no payload. With a length it would never be complete, so the peer
            // could repeat it forever.
            if header.message_len != 0 {
                return Err(Refusal::Malformed);
            }
            let mut piece = [entry.wr.sges[0]];
            self.check_local(&mut piece, regions)?;
            self.streams.requests.queue.cover(seq, header)?;
            return Ok((Landing::Value(piece[0], header.address), event));
        }
        if entry.len != header.message_len {
            return Err(Refusal::Malformed);
        }
        let pieces = sg_list::slice(&entry.wr.sges, header.offset, header.len.into());
        let mut pieces = pieces.ok_or(Refusal::Malformed)?;
        self.check_local(&mut pieces, regions)?;
        self.streams.requests.queue.cover(seq, header)?;
        Ok((Landing::Payload(pieces), event))
    }

    /// Refuses a READ or atomic that exceeds the number granted to the peer. All requests that wait
    /// for earlier packets are open. Those with a response are counted when a new request takes
    /// effect, see [`super::streams::Outgoing::make_room`].
    fn check_answerable(&self) -> Result<(), Refusal> {
        let waiting = self.streams.from_requests.waiting_requests();
        if waiting < self.granted() { Ok(()) } else { Err(Refusal::TooMany) }
    }

    /// Maximum number of READs and atomics that the peer may have open.
    fn granted(&self) -> usize {
        usize::from(self.qp.config.max_rd_atomic.max(1))
    }

    /// Checks the peer's access to memory. Returns the local address.
    pub(super) fn check_remote(
        &self,
        header: &DataHeader,
        len: u32,
        needed: Access,
        regions: &Regions,
    ) -> Result<u64, Refusal> {
        if !self.qp.config.access.allows(needed) {
            return Err(Refusal::Permission(needed));
        }
        Ok(regions.check(self.qp.config.pd, header.rkey, header.address, len.into(), needed)?)
    }

    /// Checks write access to the pieces and replaces their addresses by addresses in memory.
    pub(super) fn check_local(&self, pieces: &mut [Sge], regions: &Regions) -> Result<(), Refusal> {
        for sge in pieces {
            let needed = Access::LOCAL_WRITE;
            sge.addr = regions
                .check(self.qp.config.pd, sge.lkey, sge.addr, sge.len.into(), needed)
                .map_err(|_| Refusal::Local)?;
        }
        Ok(())
    }

    /// Records that the payload of the packet accepted last is in its place. All messages that are
    /// now complete take effect, in order.
    pub(crate) fn placed<M: Memory>(&mut self, now: Time, memory: &M) {
        for stream in [Stream::Requests, Stream::Responses] {
            loop {
                if !self.qp.state.receives() {
                    return;
                }
                let Some(incoming) = self.streams.incoming(stream) else { break };
                incoming.advance();
                let Some((psn, event)) = incoming.pop_event() else { break };
                self.take_effect(now, psn, event, memory);
            }
        }
        self.settle_refusal();
    }

    fn take_effect<M: Memory>(&mut self, now: Time, psn: Psn, event: Effect, memory: &M) {
        match event {
            Effect::Receive(received) => self.complete_receive(psn, received),
            Effect::Read { number, addr, rkey, len } => {
                match self.check_effect(memory, rkey, (addr, len), Access::REMOTE_READ) {
                    Some(at) => {
                        let waits = len > 0 && memory.must_be_copied(at);
                        self.respond(now, psn, number, Body::Read { addr, rkey, len, waits });
                    }
                    None => self.refuse_access(psn),
                }
            }
            Effect::Atomic { number, addr, rkey, op } => {
                match self.check_effect(memory, rkey, (addr, 8), Access::REMOTE_ATOMIC) {
                    Some(word) => self.carry_out(now, psn, number, || memory.atomic(word, op)),
                    None => self.refuse_access(psn),
                }
            }
            Effect::Response { seq } => self.on_response(now, psn, seq),
        }
    }

    fn complete_receive(&mut self, psn: Psn, received: Received) {
        if !self.qp.rq.is_whole(received.seq) {
            return self.refuse_unfinished(Stream::Requests, psn);
        }
        let Some(wr) = self.qp.rq.take(received.seq) else {
            // The message numbers do not count up: the peer violates the protocol.
            self.give_up(EndCause::PeerUntrue);
            return;
        };
        let completion = Completion {
            qp: self.qp.id,
            wr_id: wr.id,
            work: if received.is_write { Work::RecvWriteImm } else { Work::Recv },
            status: Status::Success,
            len: received.len,
            imm: received.imm,
            solicited: received.solicited,
            source: QpId::default(),
        };
        self.qp.ended.push_back(Ended { completion, is_reported: true });
    }

    /// Checks the memory of a READ or atomic again when it takes effect, because it may have been
    /// deregistered since the request arrived. Returns the local address.
    fn check_effect<M: Memory>(
        &self,
        memory: &M,
        rkey: u32,
        (addr, len): (u64, u32),
        needed: Access,
    ) -> Option<u64> {
        memory.regions().check(self.qp.config.pd, rkey, addr, len.into(), needed).ok()
    }

    fn refuse_access(&mut self, request: Psn) {
        self.streams.from_requests.refuse(NakCode::RemoteAccess, request);
    }

    /// Queues the response with this `body`. Refuses the request if the peer has more requests open
    /// than it was granted.
    fn respond(&mut self, now: Time, request: Psn, number: u32, body: Body) {
        if self.has_room_to_respond(now, request) {
            self.streams.responding(&self.qp.config).queue.push(number, request, body);
        }
    }

    /// Carries out an atomic and queues its response, see [`ConnectedQp::respond`].
    fn carry_out(
        &mut self,
        now: Time,
        request: Psn,
        number: u32,
        atomic: impl FnOnce() -> Option<u64>,
    ) {
        if !self.has_room_to_respond(now, request) {
            return;
        }
        match atomic() {
            Some(old) => {
                let responses = self.streams.responding(&self.qp.config);
                responses.queue.push(number, request, Body::Value(old));
            }
            None => self.streams.from_requests.refuse(NakCode::RemoteOperational, request),
        }
    }

    /// Whether another request may be answered. Refuses it otherwise.
    fn has_room_to_respond(&mut self, now: Time, request: Psn) -> bool {
        let granted = self.granted();
        let has_room = self.streams.responding(&self.qp.config).make_room(now, granted);
        if !has_room {
            self.streams.from_requests.refuse(NakCode::InvalidRequest, request);
        }
        has_room
    }

    /// Refuses the message that ends at `psn`. It has holes although all earlier packets have
    /// arrived, so nothing can fill them.
    fn refuse_unfinished(&mut self, stream: Stream, psn: Psn) {
        if let Some(incoming) = self.streams.incoming(stream) {
            incoming.refuse(NakCode::InvalidRequest, psn);
        }
    }

    fn on_response(&mut self, now: Time, psn: Psn, seq: u64) {
        if !self.streams.requests.queue.is_whole(seq) {
            return self.refuse_unfinished(Stream::Responses, psn);
        }
        if let Some(request) = self.streams.requests.queue.on_response(seq) {
            let streams = &mut self.streams;
            if streams.requests.stream.on_implied_ack(now, request) {
                self.settle_sends();
            } else {
                self.on_untrue_ack();
            }
        }
    }
}

pub(super) fn stream_of(opcode: Opcode) -> Stream {
    if opcode.is_response() { Stream::Responses } else { Stream::Requests }
}

fn received(header: &DataHeader, seq: u64, is_write: bool) -> Received {
    let imm = header.opcode.has_imm().then_some(header.imm);
    Received { seq, len: header.message_len, imm, solicited: header.solicited, is_write }
}
