//! The expectations of a host: of its work requests, and of the peer's messages.

use std::collections::VecDeque;

use braid_transport::{Ended, RemoteAddr, SendOp, SendWr, Status, Work};

use crate::host::{Arena, BASE};
use crate::plan::{Kind, Planned};

/// Slots of memory of each kind.
pub(crate) const SLOTS: usize = 40;

/// The places in the memory of a host: three areas of slots, then two words.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) slot: usize,
}

impl Layout {
    /// Memory of this end's own work requests.
    pub(crate) fn own(self, index: usize) -> usize {
        index * self.slot
    }

    /// Memory that the peer's work request `index` writes to or reads from.
    pub(crate) fn exposed(self, index: usize) -> usize {
        (SLOTS + index) * self.slot
    }

    /// Memory of receive `index`.
    pub(crate) fn receive(self, index: usize) -> usize {
        (2 * SLOTS + index) * self.slot
    }

    /// The word of an atomic.
    fn word(self, kind: Kind) -> usize {
        3 * SLOTS * self.slot + if kind == Kind::FetchAdd { 0 } else { 8 }
    }

    pub(crate) fn total(self) -> usize {
        3 * SLOTS * self.slot + 16
    }
}

/// The bytes of message `index` of a host.
pub(crate) fn pattern(host: usize, index: usize, len: u32) -> Vec<u8> {
    (0..len)
        .map(|at| (at as usize * 7 + (at >> 8) as usize + index * 31 + host * 101) as u8)
        .collect()
}

/// The work requests of one host.
pub(crate) struct Requests {
    pub(crate) host: usize,
    pub(crate) layout: Layout,
    pub(crate) planned: Vec<Planned>,
    pub(crate) posted: usize,
    pub(crate) ended: usize,
    /// The values of the peer's two words once all posted atomics are carried out.
    words: [u64; 2],
    /// The value that each posted atomic has to fetch.
    fetched: VecDeque<u64>,
    pub(crate) failed: u64,
}

impl Requests {
    pub(crate) fn new(host: usize, layout: Layout, planned: Vec<Planned>) -> Self {
        let (words, fetched) = Default::default();
        Requests { host, layout, planned, posted: 0, ended: 0, words, fetched, failed: 0 }
    }

    pub(crate) fn next(&self) -> Option<&Planned> {
        self.planned.get(self.posted)
    }

    /// Returns the next work request, whose memory is filled. `keys`: of both ends.
    pub(crate) fn take(&mut self, memory: &Arena, peer: &Arena) -> SendWr {
        let index = self.posted;
        let Planned { kind, len, signalled, fence, solicited, .. } = self.planned[index];
        self.posted += 1;
        let own = self.layout.own(index);
        let at = |place: usize| RemoteAddr { addr: BASE + place as u64, rkey: peer.key };
        let exposed = at(self.layout.exposed(index));
        let bytes = pattern(self.host, index, len);
        let imm = Some(index as u32);
        let op = match kind {
            Kind::Read => {
                peer.write(self.layout.exposed(index), &bytes);
                SendOp::Read { remote: exposed }
            }
            Kind::FetchAdd => {
                let add = index as u64 + 1;
                self.fetched.push_back(self.words[0]);
                self.words[0] += add;
                SendOp::FetchAdd { remote: at(self.layout.word(kind)), add }
            }
            Kind::CompareSwap => {
                let (compare, swap) = (self.words[1], index as u64 + 1);
                self.fetched.push_back(compare);
                self.words[1] = swap;
                SendOp::CompareSwap { remote: at(self.layout.word(kind)), compare, swap }
            }
            _ => {
                memory.write(own, &bytes);
                match kind {
                    Kind::Send => SendOp::Send { imm: None },
                    Kind::SendImm => SendOp::Send { imm },
                    Kind::Write => SendOp::Write { remote: exposed, imm: None },
                    _ => SendOp::Write { remote: exposed, imm },
                }
            }
        };
        let sges = memory.sge(own, len);
        SendWr { id: index as u64, op, sges, signalled, solicited, fence }
    }

    /// Checks the end of a work request. `may_fail`: whether the network was cut.
    pub(crate) fn on_end(
        &mut self,
        ended: Ended,
        memory: &mut Arena,
        peer: &mut Arena,
        may_fail: bool,
    ) {
        let index = self.ended;
        assert_eq!(ended.completion.wr_id, index as u64, "out of order, or twice");
        assert!(index < self.posted, "it was never posted");
        self.ended += 1;
        let Planned { kind, len, signalled, .. } = self.planned[index];
        let (own, exposed) = (self.layout.own(index), self.layout.exposed(index));
        let expected = kind.is_atomic().then(|| self.fetched.pop_front().expect("one each"));
        memory.close(own, len as usize);
        if ended.completion.status != Status::Success {
            assert!(may_fail, "request {index} {kind:?}: {:?}", ended.completion.status);
            assert!(ended.is_reported);
            self.failed += 1;
            return;
        }
        assert_eq!(self.failed, 0, "success after a failure");
        assert_eq!(ended.is_reported, signalled);
        let bytes = pattern(self.host, index, len);
        match kind {
            Kind::Write | Kind::WriteImm => {
                assert_eq!(peer.read(exposed, len as usize), bytes, "WRITE {index}");
                peer.close(exposed, len as usize);
            }
            Kind::Read => {
                assert_eq!(memory.read(own, len as usize), bytes, "READ {index}");
            }
            Kind::FetchAdd | Kind::CompareSwap => {
                assert_eq!(Some(memory.word(own)), expected, "atomic {index}");
            }
            Kind::Send | Kind::SendImm => {}
        }
    }

    /// Checks the words of the peer once everything has ended successfully.
    pub(crate) fn check_words(&self, peer: &Arena) {
        let words =
            [Kind::FetchAdd, Kind::CompareSwap].map(|kind| peer.word(self.layout.word(kind)));
        assert_eq!(words, self.words);
    }
}

/// The receives of one host.
pub(crate) struct Receives {
    /// The host whose messages arrive.
    pub(crate) from: usize,
    pub(crate) layout: Layout,
    /// The messages that consume receives: their numbers, in order.
    pub(crate) expected: Vec<usize>,
    pub(crate) posted: usize,
    pub(crate) ended: usize,
}

impl Receives {
    /// Checks the end of a receive.
    pub(crate) fn on_end(&mut self, ended: Ended, planned: &[Planned], memory: &mut Arena) {
        let completion = ended.completion;
        assert_eq!(completion.wr_id, self.ended as u64, "out of order, or twice");
        assert!(self.ended < self.posted && ended.is_reported);
        let at = self.layout.receive(self.ended);
        self.ended += 1;
        if completion.status != Status::Success {
            assert_eq!(completion.status, Status::Flushed);
            return memory.close(at, self.layout.slot);
        }
        let message = self.expected[self.ended - 1];
        let Planned { kind, len, solicited, .. } = planned[message];
        assert_eq!((completion.len, completion.solicited), (len, solicited));
        let imm = (kind != Kind::Send).then_some(message as u32);
        assert_eq!(completion.imm, imm);
        let bytes = pattern(self.from, message, len);
        if kind == Kind::WriteImm {
            assert_eq!(completion.work, Work::RecvWriteImm);
            assert_eq!(memory.read(self.layout.exposed(message), len as usize), bytes);
        } else {
            assert_eq!(completion.work, Work::Recv);
            assert_eq!(memory.read(at, len as usize), bytes, "message {message}");
        }
        memory.close(at, self.layout.slot);
    }
}
