//! The requester: this end's work requests, their packets in flight, and retries (IBTA vol. 1,
//! 9.7.5 and 9.9.2).

use std::collections::VecDeque;

use braid_wire::{AtomicOperands, Psn, RcHeader, RcOpcode, RcPosition, Time, rnr_delay};

use super::config::RcRemote;
use crate::sg_list::{self, SgList};
use crate::{SendOp, SendWr};

/// Packets of a message after which the requester asks for an acknowledgement.
const ASK_EVERY: u32 = 16;
/// Packets of the response to one READ request.
const READ_PACKETS: u64 = 16;
/// The smallest window after losses.
const LEAST_WINDOW: u64 = 4;

/// A work request in the send queue.
#[derive(Debug)]
pub(super) struct SendWork {
    pub(super) wr: SendWr,
    pub(super) len: u32,
    /// The PSNs of its packets or of its response: `first..end`. Unknown until it begins.
    first: Psn,
    end: Psn,
}

/// A packet to send, and the memory of its payload.
pub(super) struct RequestPacket {
    pub(super) header: RcHeader,
    pub(super) gather: SgList,
    pub(super) is_retransmission: bool,
}

/// Invariants: `una <= next`; `una` lies in the first work request if that has begun. `at` is the
/// index of the work request that contains `next`.
#[derive(Debug)]
pub(super) struct RcRequester {
    remote: RcRemote,
    queue: VecDeque<SendWork>,
    /// Number of work requests that have begun: those have PSNs.
    begun: usize,
    /// Index of the work request whose packet is sent next.
    at: usize,
    /// The oldest PSN that is not acknowledged.
    una: Psn,
    /// The PSN that is sent next.
    next: Psn,
    /// One more than the highest PSN that was sent or requested.
    sent: Psn,
    /// The ends of the responses that were requested, oldest first.
    reads: VecDeque<Psn>,
    window: PacketWindow,
    retry: Retry,
    /// Packets since the last request for an acknowledgement.
    since_asked: u32,
}

/// The number of packets that may be in flight.
#[derive(Debug)]
struct PacketWindow {
    now: u64,
    most: u64,
    /// Packets acknowledged since the window last grew.
    acked: u64,
}

#[derive(Debug)]
struct Retry {
    /// Retries left until the next progress.
    left: u8,
    /// RNR NAKs that one message may get. `None`: no limit.
    rnr_limit: Option<u8>,
    /// RNR NAKs since the last progress.
    rnr_naks: u8,
    /// The time at which packets are sent again.
    deadline: Option<Time>,
    /// The time until which nothing is sent, after an RNR NAK.
    hold_until: Option<Time>,
    /// The PSN from which the requester went back last, unless a time-out came since. Further NAKs
    /// of packets that were sent before then are no news.
    went_back_to: Option<Psn>,
}

/// The outcome of going back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GoBack {
    Done,
    /// The requester has gone back there already.
    Already,
    /// There are no retries left.
    Exhausted,
}

impl RcRequester {
    pub(super) fn new(remote: RcRemote, rnr_retry: Option<u8>) -> Self {
        // Far from 0, so that a late response of the peer has a PSN.
        let first = Psn(1 << 24 | u64::from(remote.send_psn & 0xFF_FFFF));
        let most = u64::from(remote.window.max(1));
        RcRequester {
            queue: VecDeque::new(),
            begun: 0,
            at: 0,
            una: first,
            next: first,
            sent: first,
            reads: VecDeque::new(),
            window: PacketWindow { now: most, most, acked: 0 },
            retry: Retry {
                left: remote.retry_count,
                rnr_limit: rnr_retry,
                rnr_naks: 0,
                deadline: None,
                hold_until: None,
                went_back_to: None,
            },
            since_asked: 0,
            remote,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing was posted or sent yet.
    pub(super) fn is_unused(&self) -> bool {
        self.queue.is_empty() && self.sent.wire() == self.remote.send_psn & 0xFF_FFFF
    }

    /// The peer's end as it was given.
    pub(super) fn remote(&self) -> &RcRemote {
        &self.remote
    }

    /// Number of packets that may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.window.now
    }

    /// Number of packets in flight, responses to READs included.
    pub(super) fn in_flight(&self) -> u64 {
        self.next.0 - self.una.0
    }

    /// Whether work requests that have begun are not acknowledged.
    pub(super) fn is_busy(&self) -> bool {
        self.begun > 0
    }

    pub(super) fn push(&mut self, wr: SendWr) {
        let len = sg_list::total_len(&wr.sges) as u32;
        let unknown = Psn::default();
        self.queue.push_back(SendWork { wr, len, first: unknown, end: unknown });
    }

    /// Removes the oldest work request.
    pub(super) fn pop(&mut self) -> Option<SendWork> {
        let work = self.queue.pop_front()?;
        self.begun = self.begun.saturating_sub(1);
        self.at = self.at.saturating_sub(1);
        Some(work)
    }

    /// Returns the PSN of a response, if it answers something that was sent and is not
    /// acknowledged.
    pub(super) fn locate(&self, wire: u32) -> Option<Psn> {
        let psn = Psn::expand(wire, self.una);
        (self.una..self.sent).contains(&psn).then_some(psn)
    }

    /// The index of the work request that a packet with this PSN (24 bits) was sent for.
    pub(super) fn index_of(&self, wire: u32) -> Option<usize> {
        let psn = Psn::expand(wire, self.una);
        let mut begun = self.queue.iter().take(self.begun);
        begun.position(|work| (work.first..work.end).contains(&psn))
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.retry.hold_until.into_iter().chain(self.retry.deadline).min()
    }

    /// Whether packets wait that were not sent since the requester last went back. `may_begin`:
    /// whether work requests may begin.
    pub(super) fn has_unsent(&self, may_begin: bool) -> bool {
        self.at < if may_begin { self.queue.len() } else { self.begun }
    }

    /// Returns the next packet. `may_begin`: whether work requests may begin. `ask_every`: packets
    /// after which it asks for an acknowledgement, if that is less than usual.
    pub(super) fn poll(
        &mut self,
        now: Time,
        may_begin: bool,
        ask_every: u32,
    ) -> Option<RequestPacket> {
        if self.retry.hold_until.is_some_and(|until| now < until) {
            return None;
        }
        self.retry.hold_until = None;
        if self.at == self.begun {
            self.begin(may_begin)?;
        }
        let work = self.queue.get(self.at)?;
        let (packets, psn) = (self.stride(work), self.next);
        let in_flight = psn.0 - self.una.0;
        if in_flight > 0 && in_flight + packets > self.window.now {
            return None;
        }
        if work.wr.op.needs_response() {
            if self.reads.len() >= usize::from(self.remote.max_rd_atomic.max(1)) {
                return None;
            }
            self.reads.push_back(psn.plus(packets));
        }
        let (header, gather) = self.describe(work, psn, packets);
        let is_retransmission = psn < self.sent;
        let ends = psn.plus(packets) == work.end;
        self.next = psn.plus(packets);
        self.sent = self.sent.max(self.next);
        self.at += usize::from(ends);
        let ack_request = self.asks(ends, may_begin, ask_every.min(ASK_EVERY));
        self.retry.deadline.get_or_insert(now + self.remote.ack_timeout);
        Some(RequestPacket {
            header: RcHeader { ack_request, ..header },
            gather,
            is_retransmission,
        })
    }

    /// Begins the next work request. `None`: it has to wait.
    fn begin(&mut self, may_begin: bool) -> Option<()> {
        let is_fenced = self.queue.get(self.at).filter(|_| may_begin)?.wr.fence;
        let before = self.queue.iter().take(self.at);
        if is_fenced && before.into_iter().any(|work| work.wr.op.needs_response()) {
            return None;
        }
        let first = self.next;
        let packets = u64::from(self.queue[self.at].len.div_ceil(self.remote.mtu.bytes()).max(1));
        let work = &mut self.queue[self.at];
        (work.first, work.end) = (first, first.plus(packets));
        self.begun += 1;
        Some(())
    }

    /// PSNs that the next packet takes: several if it requests a response.
    fn stride(&self, work: &SendWork) -> u64 {
        match work.wr.op {
            SendOp::Read { .. } => {
                // Requests after a loss end where they did before.
                let done = self.next.0 - work.first.0;
                (READ_PACKETS - done % READ_PACKETS).min(work.end.0 - self.next.0)
            }
            _ => 1,
        }
    }

    fn describe(&self, work: &SendWork, psn: Psn, packets: u64) -> (RcHeader, SgList) {
        let mtu = self.remote.mtu.bytes();
        let offset = (psn.0 - work.first.0) as u32 * mtu;
        let len = (work.len - offset).min(packets as u32 * mtu);
        let position = RcPosition::of(psn == work.first, psn.plus(packets) == work.end);
        let wr = &work.wr;
        let header = |opcode| RcHeader::new(opcode, self.remote.qp, psn.wire());
        let solicited = wr.solicited && position.ends();
        let payload = || sg_list::slice(&wr.sges, offset, len).unwrap_or_default();
        match wr.op {
            SendOp::Send { imm } => {
                let opcode = RcOpcode::send(position, imm.is_some());
                let imm = imm.filter(|_| opcode.has_imm()).unwrap_or(0);
                (RcHeader { imm, solicited, ..header(opcode) }, payload())
            }
            SendOp::Write { remote, imm } => {
                let opcode = RcOpcode::write(position, imm.is_some());
                let imm = imm.filter(|_| opcode.has_imm()).unwrap_or(0);
                let mut header = RcHeader { imm, solicited, ..header(opcode) };
                if opcode.has_reth() {
                    (header.address, header.rkey) = (remote.addr, remote.rkey);
                    header.dma_len = work.len;
                }
                (header, payload())
            }
            SendOp::Read { remote } => {
                let address = remote.addr.wrapping_add(offset.into());
                let header = header(RcOpcode::ReadRequest);
                (RcHeader { address, rkey: remote.rkey, dma_len: len, ..header }, SgList::new())
            }
            SendOp::CompareSwap { remote, compare, swap } => {
                let operands = Some(AtomicOperands { swap_or_add: swap, compare });
                let header = header(RcOpcode::CompareSwap);
                let (address, rkey) = (remote.addr, remote.rkey);
                (RcHeader { address, rkey, operands, ..header }, SgList::new())
            }
            SendOp::FetchAdd { remote, add } => {
                let operands = Some(AtomicOperands { swap_or_add: add, compare: 0 });
                let header = header(RcOpcode::FetchAdd);
                let (address, rkey) = (remote.addr, remote.rkey);
                (RcHeader { address, rkey, operands, ..header }, SgList::new())
            }
        }
    }

    /// Whether the packet that is being sent asks for an acknowledgement: every so many, and if no
    /// other packet of a message follows at once.
    fn asks(&mut self, ends: bool, may_begin: bool, every: u32) -> bool {
        self.since_asked += 1;
        let follows = match self.queue.get(self.at) {
            Some(_) if !ends => true,
            Some(next) => {
                let waits = next.wr.fence || next.wr.op.needs_response();
                (self.at < self.begun || may_begin) && !waits
            }
            None => false,
        };
        let is_full = self.next.0 - self.una.0 >= self.window.now;
        let asks = !follows || is_full || self.since_asked >= every;
        if asks {
            self.since_asked = 0;
        }
        asks
    }

    /// Handles an acknowledgement of everything before `psn`, and hands the work requests that have
    /// completed to `done`. Returns false if a response before `psn` is missing.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        psn: Psn,
        mut done: impl FnMut(&SendWork),
    ) -> bool {
        let before = self.una;
        let mut is_whole = true;
        while self.begun > 0
            && let Some(work) = self.queue.front().filter(|work| work.first < psn)
        {
            if work.wr.op.needs_response() {
                is_whole = self.una >= psn;
                break;
            }
            if work.end > psn {
                self.una = self.una.max(psn);
                break;
            }
            self.una = work.end;
            done(work);
            self.pop();
        }
        if self.una > before {
            self.on_progress(now, before);
        }
        is_whole
    }

    /// The work request whose response comes next, and the PSN of that response.
    pub(super) fn awaited(&self) -> Option<(&SendWork, Psn)> {
        let begun = self.queue.iter().take(self.begun);
        let work = begun.into_iter().find(|work| work.wr.op.needs_response())?;
        let psn = self.una.max(work.first);
        (psn < self.sent).then_some((work, psn))
    }

    /// Offset of the packet at `psn` in its message.
    pub(super) fn offset(&self, work: &SendWork, psn: Psn) -> u32 {
        (psn.0 - work.first.0) as u32 * self.remote.mtu.bytes()
    }

    /// Payload bytes of the response packet at `psn`.
    pub(super) fn response_len(&self, work: &SendWork, psn: Psn) -> u32 {
        (work.len - self.offset(work, psn)).min(self.remote.mtu.bytes())
    }

    /// Records that the response at `psn`, which was awaited, has arrived.
    pub(super) fn on_response(&mut self, now: Time, psn: Psn, mut done: impl FnMut(&SendWork)) {
        self.acknowledge(now, psn, &mut done);
        let before = self.una;
        self.una = psn.plus(1);
        if self.queue.front().is_some_and(|work| work.end == self.una)
            && let Some(work) = self.pop()
        {
            done(&work);
        }
        self.on_progress(now, before);
    }

    fn on_progress(&mut self, now: Time, before: Psn) {
        self.retry.left = self.remote.retry_count;
        self.retry.rnr_naks = 0;
        self.window.on_ack(self.una.0 - before.0);
        if self.next < self.una {
            // Packets of before the loss have arrived after all.
            (self.next, self.at) = (self.una, 0);
        }
        while self.reads.front().is_some_and(|end| *end <= self.una) {
            self.reads.pop_front();
        }
        let is_waiting = self.una < self.next;
        self.retry.deadline = is_waiting.then(|| now + self.remote.ack_timeout);
    }

    /// Changes the number of RNR NAKs that one message may get.
    pub(super) fn set_rnr_retry(&mut self, limit: Option<u8>) {
        self.retry.rnr_limit = limit;
    }

    /// Sends again from the oldest packet without acknowledgement, because the peer says that
    /// packets are missing.
    pub(super) fn go_back(&mut self) -> GoBack {
        if self.retry.went_back_to == Some(self.una) {
            return GoBack::Already;
        }
        self.retry.went_back_to = Some(self.una);
        self.rewind()
    }

    fn rewind(&mut self) -> GoBack {
        let Some(left) = self.retry.left.checked_sub(1) else { return GoBack::Exhausted };
        self.retry.left = left;
        self.window.on_loss();
        self.restart();
        GoBack::Done
    }

    fn restart(&mut self) {
        (self.next, self.at) = (self.una, 0);
        self.reads.clear();
        self.retry.deadline = None;
    }

    /// Waits for the time of an RNR NAK. Returns false if there were too many.
    pub(super) fn on_not_ready(&mut self, now: Time, code: u8) -> bool {
        if self.retry.hold_until.is_some() {
            return true;
        }
        if self.retry.rnr_limit.is_some_and(|limit| self.retry.rnr_naks >= limit) {
            return false;
        }
        self.retry.rnr_naks = self.retry.rnr_naks.saturating_add(1);
        self.restart();
        self.retry.hold_until = Some(now + rnr_delay(code));
        true
    }

    /// Runs the timers. Returns the outcome of a time-out, if there was one.
    pub(super) fn on_timeout(&mut self, now: Time) -> Option<GoBack> {
        if self.retry.hold_until.is_some_and(|until| until <= now) {
            self.retry.hold_until = None;
        }
        if self.retry.deadline.is_none_or(|deadline| now < deadline) {
            return None;
        }
        self.retry.went_back_to = None;
        Some(self.rewind())
    }
}

impl PacketWindow {
    fn on_ack(&mut self, packets: u64) {
        self.acked += packets;
        if self.acked >= self.now {
            self.acked = 0;
            self.now = (self.now + 1).min(self.most);
        }
    }

    fn on_loss(&mut self) {
        self.acked = 0;
        self.now = (self.now / 2).max(LEAST_WINDOW).min(self.most);
    }
}
