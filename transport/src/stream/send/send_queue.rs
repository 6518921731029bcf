//! The send queue: work requests from posting through segmentation to completion.
//!
//! Invariants: `entries[i]` is work request `base + i`. Those before `cursor` have been sent
//! completely, and the one at `cursor` up to `offset`. Work requests complete only at the front.

use std::collections::VecDeque;

use braid_wire::{AtomicOperands, DataHeader, Opcode, Psn};

use super::segment::{add_up, cut};
use super::source::{Limits, Next, Source};
use crate::sg_list::{self, total_len};
use crate::stream::coverage::{Arriving, Contradiction, Coverage};
use crate::{SendOp, SendWr, SgList, Status};

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) wr: SendWr,
    /// Bytes of the message.
    pub(crate) len: u32,
    number: u32,
    first: Option<Psn>,
    last: Option<Psn>,
    answered: bool,
    /// Arrived bytes of the response.
    arriving: Option<Arriving>,
    failure: Option<Status>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    entries: VecDeque<Entry>,
    base: u64,
    cursor: u64,
    offset: u32,
    /// READs and atomics that were sent and have no response yet.
    unanswered: u32,
    /// Number of the next message that consumes a receive.
    receives: u32,
    /// Coverage of responses.
    coverage: Coverage,
}

impl SendQueue {
    /// Visits the place in memory of the first work request.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(self.entries.as_slices().0.as_ptr().cast(), size_of::<Entry>());
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of work requests that have not been sent completely.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.entries.len() - (self.cursor - self.base) as usize
    }

    /// Whether a work request was begun and has not completed.
    pub(crate) fn is_busy(&self) -> bool {
        self.cursor > self.base || self.offset > 0
    }

    pub(crate) fn push(&mut self, wr: SendWr) {
        let len = total_len(&wr.sges) as u32;
        self.entries.push_back(Entry {
            wr,
            len,
            number: 0,
            first: None,
            last: None,
            answered: false,
            arriving: None,
            failure: None,
        });
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.entries.shrink_to(crate::idle::KEPT_ENTRIES);
        self.coverage.trim();
    }

    fn get(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    fn must_wait(&self, entry: &Entry, limits: Limits) -> bool {
        let fenced = entry.wr.fence && self.unanswered > 0;
        let no_slot =
            entry.wr.op.needs_response() && self.unanswered >= u32::from(limits.max_rd_atomic);
        limits.is_draining || fenced || no_slot
    }

    /// Returns the outstanding READ or atomic that a response with this number answers.
    pub(crate) fn awaiting(&self, number: u32) -> Option<(u64, &Entry)> {
        let seq = self.base + u64::from(number.wrapping_sub(self.base as u32));
        let entry = self.get(seq)?;
        let outstanding = entry.last.is_some() && !entry.answered && entry.wr.op.needs_response();
        outstanding.then_some((seq, entry))
    }

    /// Records a segment of the response to this outstanding work request.
    pub(crate) fn cover(&mut self, seq: u64, header: &DataHeader) -> Result<(), Contradiction> {
        let index = seq.checked_sub(self.base).ok_or(Contradiction)? as usize;
        let entry = self.entries.get_mut(index).ok_or(Contradiction)?;
        self.coverage.cover(seq, &mut entry.arriving, header)
    }

    /// Whether the response to this work request has arrived completely.
    pub(crate) fn is_whole(&self, seq: u64) -> bool {
        self.get(seq).and_then(|entry| entry.arriving).is_some_and(|message| message.is_whole())
    }

    /// Returns the oldest outstanding READ or atomic, and the last PSN of its request. Responses
    /// arrive in the order of the requests, so the next one belongs to it.
    pub(crate) fn oldest_unanswered(&self) -> Option<(u64, Psn)> {
        let waits = |entry: &Entry| entry.wr.op.needs_response() && !entry.answered;
        let index = self.entries.iter().position(waits)?;
        self.entries[index].last.map(|last| (self.base + index as u64, last))
    }

    /// Whether this PSN belongs to the request of an outstanding READ or atomic.
    pub(crate) fn awaits_response(&self, psn: Psn) -> bool {
        let waits = |entry: &Entry| entry.wr.op.needs_response() && !entry.answered;
        self.entries.iter().any(|entry| waits(entry) && entry.covers(psn))
    }

    /// Records that a response has arrived completely. Returns the last PSN of its request, which
    /// the response acknowledges implicitly.
    pub(crate) fn on_response(&mut self, seq: u64) -> Option<Psn> {
        let entry = self.get_mut(seq).filter(|entry| !entry.answered)?;
        entry.answered = true;
        let last = entry.last;
        self.unanswered -= 1;
        last
    }

    /// Marks the work request at this PSN as failed. The status is reported when the work request
    /// completes in order. Returns false if there is no such work request.
    pub(crate) fn fail(&mut self, psn: Psn, status: Status) -> bool {
        let hit = self.entries.iter_mut().find(|entry| entry.covers(psn));
        hit.map(|entry| entry.failure.get_or_insert(status)).is_some()
    }

    /// Marks the oldest work request as failed, if it was begun.
    pub(crate) fn fail_oldest(&mut self, status: Status) {
        if let Some(entry) = self.entries.front_mut().filter(|entry| entry.first.is_some()) {
            entry.failure.get_or_insert(status);
        }
    }

    pub(crate) fn fail_source(&mut self, seq: u64, status: Status) {
        if let Some(entry) = self.get_mut(seq) {
            entry.failure.get_or_insert(status);
        }
    }

    /// Removes the work request at the front if it has ended. `una`: all lower PSNs are
    /// acknowledged.
    pub(crate) fn pop_ended(&mut self, una: Psn) -> Option<(Entry, Status)> {
        let front = self.entries.front()?;
        let status = match front.failure {
            Some(status) => status,
            None if front.has_arrived(una) => Status::Success,
            None => return None,
        };
        self.pop().map(|entry| (entry, status))
    }

    /// Removes the work request at the front, whether or not it has ended.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if self.cursor == self.base {
            (self.cursor, self.offset) = (self.base + 1, 0);
        }
        self.base += 1;
        if entry.last.is_some() && entry.wr.op.needs_response() && !entry.answered {
            self.unanswered -= 1;
        }
        Some(entry)
    }
}

impl Source for SendQueue {
    #[inline(always)] // called for each segment
    fn peek(&self, limits: Limits) -> Option<Next> {
        let entry = self.get(self.cursor)?;
        if self.offset == 0 && self.must_wait(entry, limits) {
            return None;
        }
        let most = if entry.is_write() { limits.write_mtu } else { limits.mtu };
        Some(Next {
            source: self.cursor,
            offset: self.offset,
            len: cut(entry.payload_len(), self.offset, most),
        })
    }

    fn left_of(&self, next: Next) -> u32 {
        self.get(next.source).map_or(0, Entry::payload_len).saturating_sub(next.offset)
    }

    fn advance(&mut self, next: Next, bytes: u32, first: Psn, last: Psn) {
        let receives = self.receives;
        let cursor = self.cursor;
        let Some(entry) = self.get_mut(cursor) else { return };
        let starts = entry.first.is_none();
        if starts {
            entry.first = Some(first);
            entry.number = if entry.consumes_receive() { receives } else { cursor as u32 };
        }
        let (consumes, answers) = (entry.consumes_receive(), entry.wr.op.needs_response());
        let end = next.offset + bytes;
        let ends = end == entry.payload_len();
        if ends {
            entry.last = Some(last);
        }
        self.receives = self.receives.wrapping_add(u32::from(starts && consumes));
        self.unanswered += u32::from(ends && answers);
        (self.cursor, self.offset) = if ends { (cursor + 1, 0) } else { (cursor, end) };
    }

    fn backlog(&self, mtu: u16, most: u64) -> u64 {
        let unsent = self.entries.range((self.cursor - self.base) as usize..);
        add_up(unsent.map(Entry::payload_len), self.offset, mtu, most)
    }

    fn is_used_up(&self) -> bool {
        self.unsent() == 0
    }

    #[inline]
    fn left_behind(&self) -> usize {
        self.unsent().saturating_sub(1)
    }

    fn is_write(&self, next: Next) -> bool {
        next.len > 0 && self.get(next.source).is_some_and(Entry::is_write)
    }

    #[inline(always)] // called for each segment, and the result is large
    fn describe(&self, next: Next, bytes: u32, header: &mut DataHeader) -> Option<SgList> {
        let entry = self.get(next.source)?;
        header.number = entry.number;
        header.message_len = entry.len;
        header.solicited = entry.wr.solicited;
        entry.describe_op(header);
        let carries = header.opcode.has_payload();
        let bytes = if carries { bytes } else { 0 };
        sg_list::slice(&entry.wr.sges, next.offset, bytes)
    }
}

impl Entry {
    fn consumes_receive(&self) -> bool {
        matches!(self.wr.op, SendOp::Send { .. } | SendOp::Write { imm: Some(_), .. })
    }

    fn is_write(&self) -> bool {
        matches!(self.wr.op, SendOp::Write { .. })
    }

    /// Payload bytes of its segments: 0 for READs and atomics.
    fn payload_len(&self) -> u32 {
        if self.wr.op.needs_response() { 0 } else { self.len }
    }

    fn covers(&self, psn: Psn) -> bool {
        self.first.is_some_and(|first| first <= psn) && self.last.is_none_or(|last| psn <= last)
    }

    fn has_arrived(&self, una: Psn) -> bool {
        let answered = self.answered || !self.wr.op.needs_response();
        answered && self.last.is_some_and(|last| last < una)
    }

    fn describe_op(&self, header: &mut DataHeader) {
        let operands = |swap_or_add, compare| Some(AtomicOperands { swap_or_add, compare });
        let remote = match self.wr.op {
            SendOp::Send { imm } => {
                header.opcode = if imm.is_some() { Opcode::SendImm } else { Opcode::Send };
                header.imm = imm.unwrap_or(0);
                return;
            }
            SendOp::Write { remote, imm } => {
                header.opcode = if imm.is_some() { Opcode::WriteImm } else { Opcode::Write };
                header.imm = imm.unwrap_or(0);
                remote
            }
            SendOp::Read { remote } => {
                header.opcode = Opcode::ReadRequest;
                remote
            }
            SendOp::CompareSwap { remote, compare, swap } => {
                header.opcode = Opcode::CompareSwap;
                header.operands = operands(swap, compare);
                remote
            }
            SendOp::FetchAdd { remote, add } => {
                header.opcode = Opcode::FetchAdd;
                header.operands = operands(add, 0);
                remote
            }
        };
        header.address = remote.addr;
        header.rkey = remote.rkey;
    }
}
