//! The responder: the peer's requests, in the order of their PSNs (IBTA vol. 1, 9.7.4 and 9.9.3).

use braid_wire::{
    Aeth, Psn, RcHeader, RcNak, RcOpcode, RcOperation, RcPosition, Syndrome, rnr_code,
};

use super::config::RcRemote;
use super::response_queue::{RcResponses, Read};
use crate::qp::{Landing, QueuePair};
use crate::{
    Access, AccessError, AtomicOp, EndCause, MAX_MESSAGE, Memory, Regions, SgList, Sge, Status,
};
use crate::{Refusal, sg_list};

/// The state of the responder.
#[derive(Debug)]
pub(super) struct RcResponder {
    mtu: u32,
    /// The expected PSN.
    epsn: Psn,
    /// Messages carried out.
    msn: u32,
    /// The message whose packets are arriving.
    message: Option<Message>,
    /// Whether a NAK of the expected packet has left. No other follows until that packet arrives.
    has_nacked: bool,
    pub(super) responses: RcResponses,
    /// The end of the queue pair once all responses have left.
    end: Option<RefusedRequest>,
}

/// A message of several packets that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Send { arrived: u32 },
    Write { addr: u64, rkey: u32, len: u32, arrived: u32 },
}

/// The refusal of a request, which ends the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RefusedRequest {
    pub(super) cause: EndCause,
    /// The status of the oldest receive, if the request failed because of it.
    pub(super) receive: Option<Status>,
}

/// A request packet that was taken, until its payload is in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AcceptedRequest {
    header: RcHeader,
    len: u32,
}

/// A receive that a message has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReceivedMessage {
    pub(super) len: u32,
    pub(super) is_write: bool,
    pub(super) imm: Option<u32>,
    pub(super) solicited: bool,
}

/// The reason for not taking a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RcRejection {
    Duplicate,
    Refused(Refusal),
}

impl From<Refusal> for RcRejection {
    fn from(refusal: Refusal) -> Self {
        RcRejection::Refused(refusal)
    }
}

impl From<AccessError> for RcRejection {
    fn from(error: AccessError) -> Self {
        RcRejection::Refused(error.into())
    }
}

impl RcResponder {
    pub(super) fn new(remote: &RcRemote, resources: u8) -> Self {
        let mtu = remote.mtu.bytes();
        RcResponder {
            mtu,
            // Far from 0, so that an early duplicate has a PSN.
            epsn: Psn(1 << 24 | u64::from(remote.recv_psn & 0xFF_FFFF)),
            msn: 0,
            message: None,
            has_nacked: false,
            responses: RcResponses::new(resources, mtu, remote.qp),
            end: None,
        }
    }

    /// Whether this packet is expected and consumes a receive.
    pub(super) fn consumes_receive(&self, header: &RcHeader) -> bool {
        let opcode = header.opcode;
        let consumes = match opcode.operation() {
            RcOperation::Send => opcode.position().begins(),
            RcOperation::Write => opcode.has_imm(),
            _ => false,
        };
        consumes && self.end.is_none() && Psn::expand(header.psn, self.epsn) == self.epsn
    }

    /// The end of the queue pair, once all responses have left.
    pub(super) fn due_end(&self) -> Option<RefusedRequest> {
        self.end.filter(|_| self.responses.is_empty())
    }

    /// Decides about a request packet. `len`: bytes of its payload.
    pub(super) fn on_request(
        &mut self,
        qp: &QueuePair,
        (header, len): (&RcHeader, u32),
        regions: &Regions,
    ) -> Result<(Landing, AcceptedRequest), RcRejection> {
        if self.end.is_some() || !qp.state().receives() {
            return Err(Refusal::State.into());
        }
        let psn = Psn::expand(header.psn, self.epsn);
        if psn > self.epsn {
            if !self.has_nacked {
                self.nack(Syndrome::Nak(RcNak::Sequence));
            }
            return Err(Refusal::Order.into());
        }
        if psn < self.epsn {
            self.replay(header, psn);
            return Err(RcRejection::Duplicate);
        }
        match self.admit(qp, header, len, regions) {
            Ok(landing) => {
                self.has_nacked = false;
                Ok((landing, AcceptedRequest { header: *header, len }))
            }
            Err(RcRejection::Refused(Refusal::NotReady)) => {
                self.nack(Syndrome::NotReady(rnr_code(qp.config().rnr_delay)));
                Err(Refusal::NotReady.into())
            }
            Err(RcRejection::Refused(refusal)) => {
                self.refuse(header, refusal);
                Err(refusal.into())
            }
            duplicate => duplicate.map(|_| unreachable!("it is expected")),
        }
    }

    /// Answers a request that was carried out before (IBTA vol. 1, 9.7.5.1.2).
    fn replay(&mut self, header: &RcHeader, psn: Psn) {
        match header.opcode.operation() {
            RcOperation::Read if u64::from(header.dma_len) <= MAX_MESSAGE => {
                let whole = (header.address, header.rkey, header.dma_len);
                // A READ without a resource is too old for its requester to wait for.
                self.responses.replay_read(Read::new(psn, whole, self.mtu));
            }
            RcOperation::Read => {}
            RcOperation::Atomic => {
                self.responses.replay_atomic(psn);
            }
            _ => self.responses.acknowledge(Psn(self.epsn.0 - 1), self.msn),
        }
    }

    /// Tells the requester that it has to send from the expected PSN on again.
    fn nack(&mut self, syndrome: Syndrome) {
        self.has_nacked = true;
        self.responses.answer(self.epsn, Aeth { syndrome, msn: self.msn });
    }

    /// Refuses the expected request for good.
    fn refuse(&mut self, header: &RcHeader, refusal: Refusal) {
        let is_send = header.opcode.operation() == RcOperation::Send;
        let (code, status, receive) = match refusal {
            Refusal::Access(_) | Refusal::Permission(_) => {
                (RcNak::RemoteAccess, Status::RemoteAccess, None)
            }
            Refusal::Local => (RcNak::RemoteOperational, Status::LocalProtection, Some(is_send)),
            Refusal::TooLong => (RcNak::InvalidRequest, Status::LocalLength, Some(is_send)),
            _ => (RcNak::InvalidRequest, Status::RemoteInvalidRequest, None),
        };
        self.nack(Syndrome::Nak(code));
        let cause = match refusal {
            Refusal::Local => EndCause::LocalMemory,
            _ => EndCause::RefusedHere(status),
        };
        let receive = receive.filter(|is_send| *is_send).map(|_| status);
        self.end = Some(RefusedRequest { cause, receive });
    }

    /// Refuses the READ whose response at `psn` (24 bits) cannot be sent, because its memory is
    /// gone.
    pub(super) fn abandon(&mut self, psn: u32) {
        let syndrome = Syndrome::Nak(RcNak::RemoteAccess);
        let psn = Psn::expand(psn, self.epsn);
        self.responses.abandon(psn, Aeth { syndrome, msn: self.msn });
        let cause = EndCause::RefusedHere(Status::RemoteAccess);
        self.end = Some(RefusedRequest { cause, receive: None });
    }

    /// Returns where the expected packet lands, or the reason to refuse it.
    fn admit(
        &self,
        qp: &QueuePair,
        header: &RcHeader,
        len: u32,
        regions: &Regions,
    ) -> Result<Landing, RcRejection> {
        let (opcode, position) = (header.opcode, header.opcode.position());
        let continues = match (self.message, opcode.operation()) {
            (None, _) => position.begins(),
            (Some(Message::Send { .. }), RcOperation::Send)
            | (Some(Message::Write { .. }), RcOperation::Write) => !position.begins(),
            _ => false,
        };
        if !continues || opcode.invalidates() || !self.has_length(position, opcode, len) {
            return Err(Refusal::Malformed.into());
        }
        match opcode.operation() {
            RcOperation::Send => self.admit_send(qp, len, regions),
            RcOperation::Write => self.admit_write(qp, header, len, regions),
            RcOperation::Read => {
                if u64::from(header.dma_len) > MAX_MESSAGE || !self.responses.has_room() {
                    return Err(Refusal::TooMany.into());
                }
                let piece = (header.address, header.dma_len);
                check_remote(qp, header.rkey, piece, Access::REMOTE_READ, regions)?;
                Ok(Landing::Nothing)
            }
            RcOperation::Atomic => {
                let piece = (header.address, 8);
                let word = check_remote(qp, header.rkey, piece, Access::REMOTE_ATOMIC, regions)?;
                if !(header.address | word).is_multiple_of(8) {
                    return Err(Refusal::Alignment(header.address).into());
                }
                if !self.responses.has_room() {
                    return Err(Refusal::TooMany.into());
                }
                Ok(Landing::Nothing)
            }
            _ => Err(Refusal::Malformed.into()),
        }
    }

    /// Whether a packet at this position may have `len` bytes of payload: all but the last have as
    /// many as the path MTU.
    fn has_length(&self, position: RcPosition, opcode: RcOpcode, len: u32) -> bool {
        if !opcode.has_payload() {
            return len == 0;
        }
        match position {
            RcPosition::First | RcPosition::Middle => len == self.mtu,
            RcPosition::Last => (1..=self.mtu).contains(&len),
            RcPosition::Only => len <= self.mtu,
        }
    }

    fn admit_send(
        &self,
        qp: &QueuePair,
        len: u32,
        regions: &Regions,
    ) -> Result<Landing, RcRejection> {
        let posted = qp.next_receive().ok_or(Refusal::NotReady)?;
        let arrived = match self.message {
            Some(Message::Send { arrived }) => arrived,
            _ => 0,
        };
        if u64::from(arrived) + u64::from(len) > sg_list::total_len(&posted.sges) {
            return Err(Refusal::TooLong.into());
        }
        let mut pieces = sg_list::slice(&posted.sges, arrived, len).ok_or(Refusal::TooLong)?;
        check_local(qp, &mut pieces, regions).ok_or(Refusal::Local)?;
        Ok(Landing::Payload(pieces))
    }

    fn admit_write(
        &self,
        qp: &QueuePair,
        header: &RcHeader,
        len: u32,
        regions: &Regions,
    ) -> Result<Landing, RcRejection> {
        let (addr, rkey, whole, arrived) = match self.message {
            Some(Message::Write { addr, rkey, len, arrived }) => (addr, rkey, len, arrived),
            _ => (header.address, header.rkey, header.dma_len, 0),
        };
        if u64::from(whole) > MAX_MESSAGE {
            return Err(Refusal::Malformed.into());
        }
        let needed = Access::REMOTE_WRITE;
        // The whole message is checked before its first byte is written, and each packet again,
        // because the memory may be deregistered meanwhile.
        let first = check_remote(qp, rkey, (addr, whole), needed, regions)?;
        let left = whole - arrived;
        let fits = if header.opcode.position().ends() { len == left } else { len < left };
        if !fits {
            return Err(Refusal::Malformed.into());
        }
        if header.opcode.has_imm() {
            qp.next_receive().ok_or(Refusal::NotReady)?;
        }
        let mut pieces = SgList::new();
        if len > 0 {
            let addr = first.wrapping_add(arrived.into());
            pieces.push(Sge { addr, len, lkey: rkey });
        }
        Ok(Landing::Payload(pieces))
    }

    /// Lets a packet take effect whose payload is in its place. Returns the receive that it
    /// completes.
    pub(super) fn take_effect<M: Memory>(
        &mut self,
        qp: &QueuePair,
        accepted: AcceptedRequest,
        memory: &M,
    ) -> Option<ReceivedMessage> {
        let AcceptedRequest { header, len } = accepted;
        let psn = self.epsn;
        match header.opcode.operation() {
            RcOperation::Read => {
                self.msn = next_msn(self.msn);
                let whole = (header.address, header.rkey, header.dma_len);
                let read = Read::new(psn, whole, self.mtu);
                self.responses.read(read, self.msn);
                self.epsn = read.end;
                return None;
            }
            RcOperation::Atomic => {
                let piece = (header.address, 8);
                let regions = memory.regions();
                let word = check_remote(qp, header.rkey, piece, Access::REMOTE_ATOMIC, regions);
                let Ok(word) = word else {
                    self.refuse(&header, Refusal::Permission(Access::REMOTE_ATOMIC));
                    return None;
                };
                let operands = header.operands.unwrap_or_default();
                let op = match header.opcode {
                    RcOpcode::CompareSwap => AtomicOp::CompareSwap(operands),
                    _ => AtomicOp::FetchAdd(operands),
                };
                let Some(original) = memory.atomic(word, op) else {
                    self.refuse(&header, Refusal::Local);
                    return None;
                };
                self.msn = next_msn(self.msn);
                self.responses.atomic(psn, self.msn, original);
                self.epsn = psn.plus(1);
                return None;
            }
            _ => {}
        }
        self.epsn = psn.plus(1);
        let is_write = header.opcode.operation() == RcOperation::Write;
        let arrived = self.advance(&header, is_write, len);
        let ends = header.opcode.position().ends();
        if ends {
            self.message = None;
            self.msn = next_msn(self.msn);
        }
        if header.ack_request {
            self.responses.acknowledge(psn, self.msn);
        }
        let imm = header.opcode.has_imm().then_some(header.imm);
        let completes = ends && (!is_write || imm.is_some());
        let solicited = header.solicited;
        completes.then_some(ReceivedMessage { len: arrived, is_write, imm, solicited })
    }

    /// Records the arrival of `len` bytes of a SEND or WRITE. Returns the bytes of the message so
    /// far.
    fn advance(&mut self, header: &RcHeader, is_write: bool, len: u32) -> u32 {
        let blank = match is_write {
            true => Message::Write {
                addr: header.address,
                rkey: header.rkey,
                len: header.dma_len,
                arrived: 0,
            },
            false => Message::Send { arrived: 0 },
        };
        match self.message.get_or_insert(blank) {
            Message::Send { arrived } | Message::Write { arrived, .. } => {
                *arrived += len;
                *arrived
            }
        }
    }
}

fn next_msn(msn: u32) -> u32 {
    (msn + 1) & 0xFF_FFFF
}

/// Checks the peer's access to memory. Returns the local address.
fn check_remote(
    qp: &QueuePair,
    rkey: u32,
    (addr, len): (u64, u32),
    needed: Access,
    regions: &Regions,
) -> Result<u64, RcRejection> {
    let config = qp.config();
    if !config.access.allows(needed) {
        return Err(Refusal::Permission(needed).into());
    }
    Ok(regions.check(config.pd, rkey, addr, len.into(), needed)?)
}

/// Checks write access to the pieces and replaces their addresses by addresses in memory.
pub(super) fn check_local(qp: &QueuePair, pieces: &mut [Sge], regions: &Regions) -> Option<()> {
    let pd = qp.config().pd;
    for sge in pieces {
        let (addr, len) = (sge.addr, sge.len.into());
        sge.addr = regions.check(pd, sge.lkey, addr, len, Access::LOCAL_WRITE).ok()?;
    }
    Some(())
}
