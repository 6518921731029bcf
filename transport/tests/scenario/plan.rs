//! Makes up what the applications do: work requests, their buffers, and what has to come of them.

use std::time::Duration;

use braid_transport::{PdId, RecvWr, RemoteAddr, SendOp, SendWr, SgList};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::memory::{AreaId, HostMemory, Use};
use super::pattern::Content;
use super::queue::{PlannedRecv, PlannedSend, Queue, RECV_ID};
use super::sabotage::{NO_KEY, Sabotage};
use super::settings::{Settings, micros, pick};

/// Counters per host and protection domain; few, so that queue pairs meet on them.
const COUNTERS: usize = 3;

pub(crate) struct Planner<'a> {
    pub(crate) rng: &'a mut Pcg64Mcg,
    pub(crate) settings: &'a Settings,
    pub(crate) memories: &'a mut [HostMemory; 2],
    /// By host.
    counters: [Vec<AreaId>; 2],
    /// Which work request of the current queue must fail.
    pub(crate) struck: Option<usize>,
}

/// The work requests of one send queue while it is being planned.
pub(crate) struct Draft {
    pub(crate) host: usize,
    pub(crate) qp: usize,
    pub(crate) pd: PdId,
    pub(crate) sends: Vec<PlannedSend>,
    bytes_left: u64,
    /// The value that the last compare-and-swap of this queue put into each counter.
    swapped: Vec<u64>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        rng: &'a mut Pcg64Mcg,
        settings: &'a Settings,
        memories: &'a mut [HostMemory; 2],
    ) -> Self {
        let mut planner =
            Planner { rng, settings, memories, counters: Default::default(), struck: None };
        for host in 0..2 {
            for pd in 0..settings.domains {
                for _ in 0..COUNTERS {
                    let area = planner.reserve(host, PdId(pd), Use::Counter, 8, 8);
                    planner.memories[host].write(area, [0; 8]);
                    planner.counters[host].push(area);
                }
            }
        }
        planner
    }

    /// Both ends of one queue pair. `sabotage` strikes the send queue of host 0.
    pub(crate) fn pair(&mut self, qp: usize, pd: PdId, sabotage: Option<Sabotage>) -> [Queue; 2] {
        let sends = [0, 1].map(|host| self.sends(host, qp, pd, sabotage.filter(|_| host == 0)));
        let pace = [0, 1].map(|_| micros(pick(self.rng, &[0, 10, 1_000, 20_000])));
        let [a, b] = sends;
        let mut queues = [Queue::new(a, pace[0]), Queue::new(b, pace[1])];
        for host in 0..2 {
            let messages: Vec<PlannedSend> = {
                let peer = &queues[1 - host];
                peer.consumers.iter().map(|i| peer.sends[*i].clone()).collect()
            };
            queues[host].recvs =
                (0..messages.len()).map(|k| self.recv(host, pd, k, &messages[k])).collect();
        }
        if let Some(sabotage) = sabotage {
            self.spoil_receives(&mut queues, pd, sabotage);
        }
        queues
    }

    fn sends(
        &mut self,
        host: usize,
        qp: usize,
        pd: PdId,
        sabotage: Option<Sabotage>,
    ) -> Vec<PlannedSend> {
        let is_idle = self.settings.is_one_way && host == 1;
        let depth = if is_idle { 0 } else { self.settings.depth };
        let count = self.rng.random_range(0..=depth);
        let swapped = vec![0; COUNTERS];
        let bytes_left = self.settings.bytes;
        let mut draft = Draft { host, qp, pd, sends: Vec::new(), bytes_left, swapped };
        let strike = self.rng.random_range(0..=count);
        for index in 0..count {
            if let Some(sabotage) = sabotage.filter(|_| index == strike) {
                self.sabotage(&mut draft, sabotage);
            }
            self.send(&mut draft);
        }
        if let Some(sabotage) = sabotage.filter(|_| strike == count) {
            self.sabotage(&mut draft, sabotage);
        }
        // The end of a queue shows only in the completion of its last work request.
        if let Some(last) = draft.sends.last_mut() {
            last.wr.signalled = true;
        }
        draft.sends
    }

    fn send(&mut self, draft: &mut Draft) {
        let kinds = if self.settings.is_one_way { 0..5 } else { 0..10 };
        match self.rng.random_range(kinds) {
            0..3 => self.plain_send(draft),
            3..5 => self.write(draft, None),
            5 => self.read(draft),
            6 => self.read_after_write(draft),
            7 => self.write_after_read(draft),
            _ => self.atomic(draft),
        }
    }

    /// Mostly short; sometimes what sits on the edge of a segment; seldom long, except where keys
    /// are to change within messages.
    fn len(&mut self, draft: &mut Draft) -> u64 {
        let mtu = u64::from(self.settings.mtu);
        if self.settings.wraps {
            return self.rng.random_range(1..=64 << 10);
        }
        let long = self.settings.keyed && self.rng.random_bool(0.25);
        let len = match self.rng.random_range(0..20) {
            _ if long => mtu * self.rng.random_range(16..=128),
            0 => 0,
            1..8 => self.rng.random_range(1..=64),
            8..13 => self.rng.random_range(1..=2 * mtu),
            13..16 => mtu * self.rng.random_range(1..=4),
            16..18 => mtu * self.rng.random_range(1..=3) + 1 - 2 * self.rng.random_range(0..=1),
            18 => self.rng.random_range(1..=16 << 10),
            _ => self.rng.random_range(1..=64 << 10),
        };
        let len = len.min(draft.bytes_left);
        draft.bytes_left -= len;
        len
    }

    pub(crate) fn reserve(
        &mut self,
        host: usize,
        pd: PdId,
        usage: Use,
        len: u64,
        align: u64,
    ) -> AreaId {
        let gap = self.rng.random_range(1..=24);
        self.memories[host].reserve(pd, usage, len, gap, align)
    }

    /// Local memory of `len` bytes in up to four pieces, some of them perhaps empty.
    fn pieces(&mut self, host: usize, pd: PdId, usage: Use, len: u64) -> (Vec<AreaId>, SgList) {
        let count =
            if len == 0 { self.rng.random_range(0..=2) } else { self.rng.random_range(1..=4) };
        let (mut areas, mut sges, mut left) = (Vec::new(), SgList::new(), len);
        for index in 0..count {
            let most = if self.rng.random_bool(0.1) { 0 } else { left };
            let part = if index + 1 == count { left } else { self.rng.random_range(0..=most) };
            let area = self.reserve(host, pd, usage, part, 1);
            sges.push(self.memories[host].sge(area));
            areas.push(area);
            left -= part;
        }
        (areas, sges)
    }

    fn push(
        &mut self,
        draft: &mut Draft,
        op: SendOp,
        (local, sges): (Vec<AreaId>, SgList),
        content: Content,
        len: u64,
    ) {
        let wr = SendWr {
            id: draft.sends.len() as u64,
            op,
            sges,
            signalled: self.rng.random_bool(0.7),
            solicited: self.rng.random_bool(0.3),
            fence: self.rng.random_bool(0.1),
        };
        let len = len as u32;
        draft.sends.push(PlannedSend { wr, len, local, content, target: None, keep: false });
    }

    fn imm(&mut self, chance: f64) -> Option<u32> {
        self.rng.random_bool(chance).then(|| self.rng.random())
    }

    /// A SEND or WRITE's payload, in place.
    pub(crate) fn payload(&mut self, draft: &Draft, len: u64) -> (Vec<AreaId>, SgList, Content) {
        let content = Content::of(draft.host, draft.qp, draft.sends.len() as u64);
        let (areas, sges) = self.pieces(draft.host, draft.pd, Use::Source, len);
        let mut at = 0;
        for area in &areas {
            let piece = self.memories[draft.host].len(*area);
            self.memories[draft.host].write(*area, content.skip(at).bytes(piece));
            at += piece;
        }
        (areas, sges, content)
    }

    fn plain_send(&mut self, draft: &mut Draft) {
        let len = self.len(draft);
        self.send_of(draft, len);
    }

    pub(crate) fn send_of(&mut self, draft: &mut Draft, len: u64) {
        let (areas, sges, content) = self.payload(draft, len);
        let imm = self.imm(0.4);
        self.push(draft, SendOp::Send { imm }, (areas, sges), content, len);
    }

    /// A WRITE, to memory of its own unless the target is given.
    fn write(&mut self, draft: &mut Draft, target: Option<AreaId>) {
        let peer = 1 - draft.host;
        let len = match target {
            Some(target) => self.memories[peer].len(target),
            None => self.len(draft),
        };
        let target = target.unwrap_or_else(|| self.reserve(peer, draft.pd, Use::Target, len, 1));
        let (areas, sges, content) = self.payload(draft, len);
        let (remote, imm) = (self.remote(peer, target, 0), self.imm(0.3));
        self.push(draft, SendOp::Write { remote, imm }, (areas, sges), content, len);
        draft.sends.last_mut().expect("just pushed").target = Some(target);
    }

    pub(crate) fn remote(&self, host: usize, area: AreaId, skip: u64) -> RemoteAddr {
        let memory = &self.memories[host];
        RemoteAddr { addr: memory.addr(area) + skip, rkey: memory.key(area) }
    }

    fn read(&mut self, draft: &mut Draft) {
        let len = self.len(draft);
        self.read_from(draft, Use::Exposed, len);
    }

    pub(crate) fn read_from(&mut self, draft: &mut Draft, usage: Use, len: u64) {
        let source = self.reserve(1 - draft.host, draft.pd, usage, len, 1);
        let content = Content::of(draft.host, draft.qp, draft.sends.len() as u64);
        self.memories[1 - draft.host].write(source, content.bytes(len));
        self.read_of(draft, source, content, 0, len);
    }

    fn read_of(
        &mut self,
        draft: &mut Draft,
        source: AreaId,
        content: Content,
        skip: u64,
        len: u64,
    ) {
        let landing = self.pieces(draft.host, draft.pd, Use::Landing, len);
        let remote = self.remote(1 - draft.host, source, skip);
        self.push(draft, SendOp::Read { remote }, landing, content.skip(skip), len);
    }

    /// A READ of a part of what an earlier WRITE of the same queue leaves, fenced or not.
    fn read_after_write(&mut self, draft: &mut Draft) {
        let is_write = |i: &usize| draft.sends[*i].target.is_some();
        let Some(index) = (0..draft.sends.len()).rev().find(is_write) else {
            return self.read(draft);
        };
        draft.sends[index].keep = true;
        let write = &draft.sends[index];
        let (source, content, whole) = (write.target, write.content, u64::from(write.len));
        let Some(source) = source else { return };
        let skip = self.rng.random_range(0..=whole);
        let len = self.rng.random_range(0..=whole - skip).min(draft.bytes_left);
        draft.bytes_left -= len;
        self.read_of(draft, source, content, skip, len);
    }

    /// A READ, and a fenced WRITE to the same memory, which must not change what the READ gets.
    fn write_after_read(&mut self, draft: &mut Draft) {
        let len = self.len(draft);
        let area = self.reserve(1 - draft.host, draft.pd, Use::Target, len, 1);
        let content = Content::of(draft.host, draft.qp, draft.sends.len() as u64);
        self.memories[1 - draft.host].write(area, content.bytes(len));
        self.read_of(draft, area, content, 0, len);
        self.write(draft, Some(area));
        draft.sends.last_mut().expect("just pushed").wr.fence = true;
    }

    fn atomic(&mut self, draft: &mut Draft) {
        let peer = 1 - draft.host;
        let which = self.rng.random_range(0..COUNTERS);
        let counter = self.counters[peer][draft.pd.0 as usize * COUNTERS + which];
        let remote = self.remote(peer, counter, 0);
        let landing = self.reserve(draft.host, draft.pd, Use::Landing, 8, 1);
        let sges = SgList::from_iter([self.memories[draft.host].sge(landing)]);
        // Different everywhere, so that an atomic can be told by its operands.
        let operand = self.rng.random::<u64>() | 1;
        let op = if self.rng.random_bool(0.5) {
            let compare = std::mem::replace(&mut draft.swapped[which], operand);
            SendOp::CompareSwap { remote, compare, swap: operand }
        } else {
            SendOp::FetchAdd { remote, add: operand }
        };
        let content = Content::of(draft.host, draft.qp, draft.sends.len() as u64);
        self.push(draft, op, (vec![landing], sges), content, 8);
    }

    /// Spoils the receives of host 1 that a sabotaged SEND of host 0 takes.
    fn spoil_receives(&mut self, queues: &mut [Queue; 2], pd: PdId, sabotage: Sabotage) {
        let Some(struck) = self.struck else { return };
        let Some(k) = queues[0].consumers.iter().position(|i| *i == struck) else { return };
        match sabotage {
            Sabotage::ShortBuffer => {
                let capacity = self.rng.random_range(0..u64::from(queues[0].sends[struck].len));
                queues[1].recvs[k] = self.recv_of(1, pd, k, capacity);
            }
            Sabotage::BadReceive => {
                let sges = &mut queues[1].recvs[k].wr.sges;
                sges.iter_mut().for_each(|sge| sge.lkey = NO_KEY);
            }
            Sabotage::NotReady => queues[1].recvs.truncate(k),
            _ => {}
        }
    }

    fn recv(&mut self, host: usize, pd: PdId, index: usize, message: &PlannedSend) -> PlannedRecv {
        let is_send = matches!(message.wr.op, SendOp::Send { .. });
        let spare = if self.rng.random_bool(0.5) { 0 } else { self.rng.random_range(0..100) };
        let capacity = spare + if is_send { u64::from(message.len) } else { 0 };
        self.recv_of(host, pd, index, capacity)
    }

    pub(crate) fn recv_of(
        &mut self,
        host: usize,
        pd: PdId,
        index: usize,
        capacity: u64,
    ) -> PlannedRecv {
        let (areas, sges) = self.pieces(host, pd, Use::Landing, capacity);
        let wr = RecvWr { id: RECV_ID + index as u64, sges };
        let lag = self.settings.recv_lag.mul_f64(self.rng.random::<f64>().powi(3));
        let lag = if self.rng.random_bool(0.5) { Duration::ZERO } else { lag };
        PlannedRecv { wr, areas, lag }
    }

    /// Adds a work request to a draft; those that break the rules are made elsewhere.
    pub(crate) fn add(
        &mut self,
        draft: &mut Draft,
        op: SendOp,
        local: (Vec<AreaId>, SgList),
        len: u64,
    ) {
        let content = Content::of(draft.host, draft.qp, draft.sends.len() as u64);
        self.push(draft, op, local, content, len);
    }

    pub(crate) fn landing(&mut self, draft: &Draft, len: u64) -> (Vec<AreaId>, SgList) {
        self.pieces(draft.host, draft.pd, Use::Landing, len)
    }
}
