//! The work requests of the device's queue pairs, and their completions.

use std::collections::{HashMap, VecDeque};
use std::mem::zeroed;

use crate::Sge;
use crate::abi::*;

/// Queue pairs by number, and completion queues by address.
#[derive(Default)]
pub(super) struct Queues {
    made: u32,
    pairs: HashMap<u32, Pair>,
    completions: HashMap<usize, Completions>,
    is_overcommitted: bool,
}

struct Pair {
    send_cq: usize,
    recv_cq: usize,
    receives: VecDeque<(u64, Vec<Sge>)>,
    /// The sends, each with whether it asks for a completion.
    sends: Vec<(u64, bool)>,
    max_sends: usize,
    has_failed: bool,
}

struct Completions {
    entries: usize,
    waiting: VecDeque<ibv_wc>,
}

impl Queues {
    pub(super) fn make_cq(&mut self, cq: *const ibv_cq, entries: i32) {
        let entries = usize::try_from(entries).unwrap_or(0);
        let made = Completions { entries, waiting: VecDeque::new() };
        self.completions.insert(cq.addr(), made);
    }

    pub(super) fn drop_cq(&mut self, cq: *const ibv_cq) {
        self.completions.remove(&cq.addr());
    }

    /// Adds a queue pair and returns its number.
    pub(super) fn make_qp(&mut self, init: &ibv_qp_init_attr) -> u32 {
        let number = 0x11_2233 + self.made;
        self.made += 1;
        let (send_cq, recv_cq) = (init.send_cq.addr(), init.recv_cq.addr());
        let (receives, sends) = (VecDeque::new(), Vec::new());
        let max_sends = init.cap.max_send_wr as usize;
        let pair = Pair { send_cq, recv_cq, receives, sends, max_sends, has_failed: false };
        self.pairs.insert(number, pair);
        number
    }

    pub(super) fn drop_qp(&mut self, qp: u32) {
        self.pairs.remove(&qp);
    }

    pub(super) fn reset(&mut self, qp: u32) {
        let Some(pair) = self.pairs.get_mut(&qp) else { return };
        pair.receives.clear();
        pair.sends.clear();
        pair.has_failed = false;
    }

    pub(super) fn post_recv(&mut self, qp: u32, id: u64, sges: &[Sge]) {
        let Some(pair) = self.pairs.get_mut(&qp) else { return };
        pair.receives.push_back((id, sges.to_vec()));
        let cq = pair.recv_cq;
        self.check_room(cq);
        if self.pairs[&qp].has_failed {
            self.flush(qp);
        }
    }

    /// Posts a send. Returns whether the send queue had room.
    pub(super) fn post_send(&mut self, qp: u32, id: u64, is_signaled: bool) -> bool {
        let Some(pair) = self.pairs.get_mut(&qp) else { return true };
        if pair.sends.len() >= pair.max_sends {
            return false;
        }
        pair.sends.push((id, is_signaled));
        let (cq, has_failed) = (pair.send_cq, pair.has_failed);
        self.check_room(cq);
        if has_failed {
            self.flush(qp);
        }
        true
    }

    /// Records whether more is posted for a completion queue than it has entries, because a failed
    /// queue pair completes all of it.
    fn check_room(&mut self, cq: usize) {
        let posted = |pair: &Pair| {
            let receives = if pair.recv_cq == cq { pair.receives.len() } else { 0 };
            receives + if pair.send_cq == cq { pair.sends.len() } else { 0 }
        };
        let posted: usize = self.pairs.values().map(posted).sum();
        let room = self.completions.get(&cq).map(|c| c.entries.saturating_sub(c.waiting.len()));
        self.is_overcommitted |= room.is_some_and(|room| posted > room);
    }

    pub(super) fn is_overcommitted(&self) -> bool {
        self.is_overcommitted
    }

    pub(super) fn deliver(&mut self, qp: u32, message: &[u8]) -> bool {
        let Some(pair) = self.pairs.get_mut(&qp) else { return false };
        let has_room = |(_, sges): &(u64, Vec<Sge>)| {
            sges.first().is_some_and(|sge| sge.len as usize >= message.len())
        };
        if !pair.receives.front().is_some_and(has_room) {
            return false;
        }
        let Some((id, sges)) = pair.receives.pop_front() else { return false };
        let to = std::ptr::with_exposed_provenance_mut::<u8>(sges[0].addr as usize);
        // SAFETY: the poster of the receive guarantees these bytes until its completion.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), to, message.len()) };
        let len = message.len() as u32;
        self.complete_recv(qp, |wc| (wc.wr_id, wc.opcode, wc.byte_len) = (id, IBV_WC_RECV, len));
        true
    }

    pub(super) fn deliver_imm(&mut self, qp: u32, imm: u32, len: u32) -> bool {
        let taken = self.pairs.get_mut(&qp).and_then(|pair| pair.receives.pop_front());
        let Some((id, _)) = taken else { return false };
        self.complete_recv(qp, |wc| {
            (wc.wr_id, wc.opcode, wc.byte_len) = (id, IBV_WC_RECV_RDMA_WITH_IMM, len);
            (wc.imm_data, wc.wc_flags) = (imm.to_be(), IBV_WC_WITH_IMM);
        });
        true
    }

    pub(super) fn flush(&mut self, qp: u32) {
        let Some(pair) = self.pairs.get_mut(&qp) else { return };
        pair.has_failed = true;
        let (receives, sends) =
            (std::mem::take(&mut pair.receives), std::mem::take(&mut pair.sends));
        let send_cq = pair.send_cq;
        for (id, _) in receives {
            self.complete_recv(qp, |wc| (wc.wr_id, wc.status) = (id, IBV_WC_WR_FLUSH_ERR));
        }
        for (id, _) in sends {
            self.complete(send_cq, qp, |wc| (wc.wr_id, wc.status) = (id, IBV_WC_WR_FLUSH_ERR));
        }
    }

    pub(super) fn finish_sends(&mut self) {
        let take = |(qp, pair): (&u32, &mut Pair)| {
            let (qp, cq) = (*qp, pair.send_cq);
            let sends = std::mem::take(&mut pair.sends).into_iter();
            sends.filter(|(_, is_signaled)| *is_signaled).map(move |(id, _)| (cq, qp, id))
        };
        let all: Vec<_> = self.pairs.iter_mut().flat_map(take).collect();
        for (cq, qp, id) in all {
            self.complete(cq, qp, |wc| (wc.wr_id, wc.opcode) = (id, IBV_WC_SEND));
        }
    }

    fn complete_recv(&mut self, qp: u32, fill: impl FnOnce(&mut ibv_wc)) {
        let cq = self.pairs[&qp].recv_cq;
        self.complete(cq, qp, fill);
    }

    fn complete(&mut self, cq: usize, qp: u32, fill: impl FnOnce(&mut ibv_wc)) {
        // SAFETY: all fields are integers.
        let mut wc: ibv_wc = unsafe { zeroed() };
        wc.qp_num = qp;
        fill(&mut wc);
        self.completions.entry(cq).and_modify(|cq| cq.waiting.push_back(wc));
    }

    pub(super) fn poll(&mut self, cq: *const ibv_cq) -> Option<ibv_wc> {
        self.completions.get_mut(&cq.addr())?.waiting.pop_front()
    }
}
