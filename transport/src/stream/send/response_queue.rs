//! The queue of responses: the data of the peer's READs and the results of its atomics, in the
//! order of the requests.
//!
//! Invariant: `responses[i]` is response `base + i`. Those before `cursor` have been sent
//! completely.

use std::collections::VecDeque;

use braid_wire::{DataHeader, Opcode, Psn};

use super::segment::{add_up, cut};
use super::source::{Limits, Next, Source};
use crate::sg_list;
use crate::{SgList, Sge};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// Memory that the peer reads. `waits`: the driver has to copy it first, see
    /// [`ResponseQueue::serve`].
    Read { addr: u64, rkey: u32, len: u32, waits: bool },
    /// The value in memory before an atomic was executed.
    Value(u64),
}

#[derive(Clone, Copy, Debug)]
struct Response {
    /// Number of the request, as the requester sent it.
    number: u32,
    /// PSN of the request.
    request: Psn,
    body: Body,
    last: Option<Psn>,
}

/// A READ whose memory the driver has to copy before the response can leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingRead {
    /// The number of the response, for [`crate::Endpoint::serve_read`].
    pub response: u64,
    /// The memory that the peer reads, as the request named it.
    pub memory: Sge,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseQueue {
    responses: VecDeque<Response>,
    base: u64,
    cursor: u64,
    offset: u32,
    /// Responses that wait for a copy.
    waiting: usize,
}

impl ResponseQueue {
    pub(crate) fn len(&self) -> usize {
        self.responses.len()
    }

    pub(crate) fn push(&mut self, number: u32, request: Psn, body: Body) {
        self.waiting += usize::from(body.waits());
        self.responses.push_back(Response { number, request, body, last: None });
    }

    fn get(&self, seq: u64) -> Option<&Response> {
        self.responses.get(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    /// The number of the oldest response; the driver may release copies for earlier ones.
    pub(crate) fn oldest(&self) -> u64 {
        self.base
    }

    /// Returns the first response from number `from` on that waits for a copy.
    pub(crate) fn waiting(&self, from: u64) -> Option<WaitingRead> {
        if self.waiting == 0 {
            return None;
        }
        let first = from.max(self.base);
        let skipped = usize::try_from(first - self.base).ok()?;
        (first..).zip(self.responses.iter().skip(skipped)).find_map(|(number, it)| match it.body {
            Body::Read { addr, rkey, len, waits: true } => {
                let memory = Sge { addr, len, lkey: rkey };
                Some(WaitingRead { response: number, memory })
            }
            _ => None,
        })
    }

    /// Lets a response that waits leave from `copy`, which is as long. Returns false if there is
    /// no such response.
    pub(crate) fn serve(&mut self, response: u64, copy: Sge) -> bool {
        let index = response.checked_sub(self.base).and_then(|index| usize::try_from(index).ok());
        let found = index.and_then(|index| self.responses.get_mut(index));
        let Some(found) = found.filter(|it| it.body.waits() && it.len() == copy.len) else {
            return false;
        };
        let Sge { addr, len, lkey: rkey } = copy;
        found.body = Body::Read { addr, rkey, len, waits: false };
        self.waiting -= 1;
        true
    }

    /// Last PSN of the oldest response, if it was sent completely.
    pub(crate) fn oldest_sent(&self) -> Option<Psn> {
        self.responses.front()?.last
    }

    /// Returns the PSN of the newest request, if all responses were sent whole.
    pub(crate) fn newest_sent(&self) -> Option<Psn> {
        self.responses.back().filter(|newest| newest.last.is_some()).map(|newest| newest.request)
    }

    /// Removes the responses that are acknowledged completely. `una`: all lower PSNs are
    /// acknowledged.
    pub(crate) fn retire(&mut self, una: Psn) {
        while self.responses.front().is_some_and(|front| front.last.is_some_and(|last| last < una))
        {
            self.responses.pop_front();
            self.base += 1;
        }
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.responses.shrink_to(crate::idle::KEPT_ENTRIES);
    }

    /// Returns the PSN of the request that this response answers.
    pub(crate) fn request_of(&self, source: u64) -> Option<Psn> {
        self.get(source).map(|response| response.request)
    }

    pub(crate) fn clear(&mut self) {
        self.base += self.responses.len() as u64;
        self.responses.clear();
        (self.cursor, self.offset, self.waiting) = (self.base, 0, 0);
    }
}

impl Source for ResponseQueue {
    fn peek(&self, limits: Limits) -> Option<Next> {
        let response = self.get(self.cursor).filter(|response| !response.body.waits())?;
        Some(Next {
            source: self.cursor,
            offset: self.offset,
            len: cut(response.len(), self.offset, limits.mtu),
        })
    }

    fn left_of(&self, next: Next) -> u32 {
        self.get(next.source).map_or(0, Response::len).saturating_sub(next.offset)
    }

    fn advance(&mut self, next: Next, bytes: u32, _: Psn, last: Psn) {
        self.offset = next.offset + bytes;
        let index = (self.cursor - self.base) as usize;
        let response = &mut self.responses[index];
        if self.offset == response.len() {
            response.last = Some(last);
            self.cursor += 1;
            self.offset = 0;
        }
    }

    fn backlog(&self, mtu: u16, most: u64) -> u64 {
        let unsent = self.responses.range((self.cursor - self.base) as usize..);
        add_up(unsent.map(Response::len), self.offset, mtu, most)
    }

    fn is_used_up(&self) -> bool {
        self.cursor - self.base == self.responses.len() as u64
    }

    /// Returns 0: responses do not decide when to ask for an acknowledgement.
    fn left_behind(&self) -> usize {
        0
    }

    fn is_write(&self, _: Next) -> bool {
        false
    }

    fn describe(&self, next: Next, bytes: u32, header: &mut DataHeader) -> Option<SgList> {
        let response = self.get(next.source)?;
        header.number = response.number;
        header.message_len = response.len();
        match response.body {
            Body::Value(value) => {
                header.opcode = Opcode::AtomicResponse;
                header.address = value;
                Some(SgList::new())
            }
            Body::Read { addr, rkey, len, .. } => {
                header.opcode = Opcode::ReadResponse;
                let whole = [Sge { addr, len, lkey: rkey }];
                sg_list::slice(&whole, next.offset, bytes)
            }
        }
    }
}

impl Body {
    fn waits(self) -> bool {
        matches!(self, Body::Read { waits: true, .. })
    }
}

impl Response {
    fn len(&self) -> u32 {
        match self.body {
            Body::Read { len, .. } => len,
            Body::Value(_) => 0,
        }
    }
}
