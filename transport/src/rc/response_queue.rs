//! The responses that a responder owes, in the order of their PSNs, and the resources by which it
//! replays READs and atomics (IBTA vol. 1, 9.7.5.1.1 and 9.4.4).

use std::collections::VecDeque;

use braid_wire::{Aeth, Psn, QpId, RcHeader, RcOpcode, RcPosition, Syndrome};

use crate::sg_list::{SgList, Sge};

/// Responses in the order in which they leave: at most as many new ones as resources, as many
/// replays, and acknowledgements between them, which merge with the one before.
#[derive(Debug)]
pub(super) struct RcResponses {
    items: VecDeque<Item>,
    resources: VecDeque<Resource>,
    /// Number of resources.
    limit: usize,
    mtu: u32,
    /// The queue pair of the requester.
    to: QpId,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Acknowledge { psn: Psn, aeth: Aeth },
    Read { read: Read, next: Psn, msn: u32, is_replay: bool },
    Atomic { psn: Psn, msn: u32, original: u64, is_replay: bool },
}

/// A READ that the responder has accepted, or the rest of one that the requester asks for again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// The PSNs of the response: `first..end`.
    pub(super) first: Psn,
    pub(super) end: Psn,
    pub(super) addr: u64,
    pub(super) rkey: u32,
    pub(super) len: u32,
}

impl Read {
    /// A READ of `len` bytes whose response begins at `first`.
    pub(super) fn new(first: Psn, (addr, rkey, len): (u64, u32, u32), mtu: u32) -> Self {
        Read { first, end: first.plus(len.div_ceil(mtu).max(1).into()), addr, rkey, len }
    }
}

#[derive(Clone, Copy, Debug)]
enum Resource {
    Read { read: Read, msn: u32 },
    Atomic { psn: Psn, msn: u32, original: u64 },
}

impl Item {
    /// Whether it is sent again. `None`: it is an acknowledgement.
    fn is_replay(&self) -> Option<bool> {
        match self {
            Item::Acknowledge { .. } => None,
            Item::Read { is_replay, .. } | Item::Atomic { is_replay, .. } => Some(*is_replay),
        }
    }
}

/// A packet of the queue, and the memory of its payload.
pub(super) struct ResponsePacket {
    pub(super) header: RcHeader,
    pub(super) gather: SgList,
}

impl RcResponses {
    pub(super) fn new(limit: u8, mtu: u32, to: QpId) -> Self {
        let (items, resources) = Default::default();
        RcResponses { items, resources, limit: usize::from(limit.max(1)), mtu, to }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the next packet is of the response to a READ.
    pub(super) fn is_read_next(&self) -> bool {
        matches!(self.items.front(), Some(Item::Read { .. }))
    }

    /// Whether the responder has a resource for another READ or atomic. The oldest resource is free
    /// once its response has left. A replay may answer a request that was late, so that the
    /// requester does not wait for it.
    pub(super) fn has_room(&self) -> bool {
        self.items.iter().filter(|item| item.is_replay() == Some(false)).count() < self.limit
    }

    /// Acknowledges all requests up to `psn`.
    pub(super) fn acknowledge(&mut self, psn: Psn, msn: u32) {
        self.answer(psn, Aeth { syndrome: Syndrome::UNLIMITED, msn });
    }

    /// Adds an acknowledgement or a NAK. It replaces an acknowledgement that has not left.
    pub(super) fn answer(&mut self, psn: Psn, aeth: Aeth) {
        if let Some(Item::Acknowledge { aeth: before, .. }) = self.items.back()
            && matches!(before.syndrome, Syndrome::Ack(_))
        {
            self.items.pop_back();
        }
        // Duplicates of one packet may cause as many answers.
        let repeats = self.items.back().is_some_and(
            |last| matches!(last, Item::Acknowledge { psn: at, aeth: it } if *at == psn && *it == aeth),
        );
        if !repeats {
            self.items.push_back(Item::Acknowledge { psn, aeth });
        }
    }

    /// Adds the response to a new READ.
    pub(super) fn read(&mut self, read: Read, msn: u32) {
        self.keep(Resource::Read { read, msn });
        self.items.push_back(Item::Read { read, next: read.first, msn, is_replay: false });
    }

    /// Adds the response to a new atomic.
    pub(super) fn atomic(&mut self, psn: Psn, msn: u32, original: u64) {
        self.keep(Resource::Atomic { psn, msn, original });
        self.items.push_back(Item::Atomic { psn, msn, original, is_replay: false });
    }

    fn keep(&mut self, resource: Resource) {
        if self.resources.len() == self.limit {
            self.resources.pop_front();
        }
        self.resources.push_back(resource);
    }

    /// Sends the response to a READ again, or its end. The READ has to be part of one that has a
    /// resource. Returns false if it is not.
    pub(super) fn replay_read(&mut self, read: Read) -> bool {
        let mtu = u64::from(self.mtu);
        let is_part = |whole: &Read| {
            let Some(packets) = read.first.ahead_of(whole.first) else { return false };
            let offset = packets * mtu;
            read.end <= whole.end
                && read.rkey == whole.rkey
                && read.addr == whole.addr.wrapping_add(offset)
                && offset + u64::from(read.len) <= u64::from(whole.len)
        };
        let msn = self.resources.iter().find_map(|resource| match resource {
            Resource::Read { read: whole, msn } if is_part(whole) => Some(*msn),
            _ => None,
        });
        let Some(msn) = msn else { return false };
        // The requester waits for this response, and ignores what is left of an earlier one.
        self.items.retain(|item| match item {
            Item::Read { read: other, .. } => other.end <= read.first || read.end <= other.first,
            _ => true,
        });
        self.replay(Item::Read { read, next: read.first, msn, is_replay: true });
        true
    }

    /// Sends the response to an atomic again. Returns false if it has no resource.
    pub(super) fn replay_atomic(&mut self, at: Psn) -> bool {
        let kept = self.resources.iter().find_map(|resource| match *resource {
            Resource::Atomic { psn, msn, original } if psn == at => {
                Some(Item::Atomic { psn, msn, original, is_replay: true })
            }
            _ => None,
        });
        let Some(kept) = kept else { return false };
        self.items.retain(|item| !matches!(item, Item::Atomic { psn, .. } if *psn == at));
        self.replay(kept);
        true
    }

    /// Adds a replay. The oldest one gives way if there are as many as resources. Its requester
    /// asks again if it waits.
    fn replay(&mut self, item: Item) {
        let replays = || self.items.iter().filter(|item| item.is_replay() == Some(true));
        if replays().count() >= self.limit {
            let oldest = self.items.iter().position(|item| item.is_replay() == Some(true));
            oldest.and_then(|at| self.items.remove(at));
        }
        self.items.push_back(item);
    }

    /// Replaces all responses by a NAK, because the memory of the response at `psn` (24 bits) is
    /// gone.
    pub(super) fn abandon(&mut self, psn: Psn, aeth: Aeth) {
        self.items.clear();
        self.items.push_back(Item::Acknowledge { psn, aeth });
    }

    /// Returns the next packet.
    pub(super) fn poll(&mut self) -> Option<ResponsePacket> {
        let (to, mtu) = (self.to, self.mtu);
        let blank = |opcode, psn: Psn, aeth| RcHeader {
            aeth: Some(aeth),
            ..RcHeader::new(opcode, to, psn.wire())
        };
        let done = |msn| Aeth { syndrome: Syndrome::UNLIMITED, msn };
        let (header, gather) = match self.items.front_mut()? {
            Item::Acknowledge { psn, aeth } => {
                (blank(RcOpcode::Acknowledge, *psn, *aeth), SgList::new())
            }
            Item::Atomic { psn, msn, original, .. } => {
                let header = blank(RcOpcode::AtomicAcknowledge, *psn, done(*msn));
                (RcHeader { original: *original, ..header }, SgList::new())
            }
            Item::Read { read, next, msn, .. } => {
                let at = *next;
                *next = at.plus(1);
                let ends = *next == read.end;
                let position = RcPosition::of(at == read.first, ends);
                let mut header = blank(RcOpcode::read_response(position), at, done(*msn));
                if position == RcPosition::Middle {
                    header.aeth = None;
                }
                let offset = (at.0 - read.first.0) as u32 * mtu;
                let len = mtu.min(read.len - offset);
                let addr = read.addr.wrapping_add(offset.into());
                let mut gather = SgList::new();
                if len > 0 {
                    gather.push(Sge { addr, len, lkey: read.rkey });
                }
                if !ends {
                    return Some(ResponsePacket { header, gather });
                }
                (header, gather)
            }
        };
        self.items.pop_front();
        Some(ResponsePacket { header, gather })
    }
}
