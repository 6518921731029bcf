//! One host: an endpoint, its memory, its driver, and the work requests of its queue pairs.

use std::collections::VecDeque;

use braid_lb::Rails;
use braid_transport::{
    Admit, Arrival, Completion, Disconnects, Egress, Endpoint, QpConfig, QpSlot, QpState, RecvWr,
    Remote, SendOp, SendWr, SgList, Sge, Status, Transmit, TransmitBody, Work,
};
use braid_wire::{Control, ControlKind, Packet, PathId, QpId, RailId, Time, Token};

use super::kit;
use super::memory::{HostMemory, PD};

/// Transmissions of one turn; more of them would never end.
const MANY: usize = 20_000;
/// Times that timers may come due in one turn.
const ROUNDS: usize = 4;

/// A work request under way, and its buffer.
#[derive(Clone, Copy, Debug)]
struct Posted {
    id: u64,
    buffer: Option<Sge>,
}

/// A queue pair as its driver and its application know it.
pub(crate) struct Pair {
    pub(crate) id: QpId,
    pub(crate) slot: QpSlot,
    sends: VecDeque<Posted>,
    receives: VecDeque<Posted>,
}

/// What this host's end of a connection is made with.
pub(crate) struct LocalEnd {
    pub(crate) id: QpId,
    pub(crate) token: Token,
    pub(crate) config: QpConfig,
    pub(crate) remote: Remote,
}

/// A work request that has ended, and what its buffer holds.
pub(crate) struct Ended {
    pub(crate) pair: usize,
    pub(crate) completion: Completion,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) rails: Rails,
    pub(crate) memory: HostMemory,
    pub(crate) pairs: Vec<Pair>,
    /// Told to peers until they confirm them.
    disconnects: Disconnects<()>,
    next_wr: u64,
}

impl Host {
    pub(crate) fn new(endpoint: Endpoint, rails: Rails, memory: HostMemory) -> Self {
        let disconnects = Disconnects::new(4);
        Host { endpoint, rails, memory, pairs: Vec::new(), disconnects, next_wr: 0 }
    }

    fn adopt(&mut self, now: Time, end: LocalEnd) -> Pair {
        let LocalEnd { id, token, config, remote } = end;
        let (ends, config) = ((&mut self.endpoint, &mut self.rails), QpConfig { pd: PD, ..config });
        let slot = kit::connect(now, ends, (id, token), config, remote);
        Pair { id, slot, sends: VecDeque::new(), receives: VecDeque::new() }
    }

    pub(crate) fn connect(&mut self, now: Time, end: LocalEnd) {
        let pair = self.adopt(now, end);
        self.pairs.push(pair);
    }

    /// Takes a queue pair out, all of whose work requests have ended, and puts another in its
    /// place.
    pub(crate) fn replace(&mut self, now: Time, pair: usize, end: LocalEnd) {
        assert!(self.is_idle(pair), "work requests of {pair} never end");
        self.endpoint.release(now, self.pairs[pair].slot, &mut self.rails);
        self.pairs[pair] = self.adopt(now, end);
    }

    pub(crate) fn state(&self, pair: usize) -> QpState {
        self.endpoint.qp(self.pairs[pair].slot).state()
    }

    pub(crate) fn is_idle(&self, pair: usize) -> bool {
        self.pairs[pair].sends.is_empty() && self.pairs[pair].receives.is_empty()
    }

    pub(crate) fn sends(&self, pair: usize) -> usize {
        self.pairs[pair].sends.len()
    }

    pub(crate) fn receives(&self, pair: usize) -> usize {
        self.pairs[pair].receives.len()
    }

    /// Posts a request whose payload comes from, or goes to, this buffer. False: it was not taken.
    pub(crate) fn post_send(&mut self, now: Time, pair: usize, op: SendOp, buffer: Sge) -> bool {
        self.next_wr += 1;
        let id = self.next_wr;
        let sges = SgList::from_iter([buffer]);
        let wr = SendWr { id, op, sges, signalled: true, solicited: false, fence: false };
        let taken = self.endpoint.post_send(now, self.pairs[pair].slot, wr).is_ok();
        if taken {
            self.pairs[pair].sends.push_back(Posted { id, buffer: Some(buffer) });
        } else {
            self.memory.give_back(buffer, 0);
        }
        taken
    }

    /// Posts a receive, if there is a buffer.
    pub(crate) fn post_recv(&mut self, now: Time, pair: usize, len: u32) {
        let Some(buffer) = self.memory.lend_landing(len) else { return };
        self.next_wr += 1;
        let wr = RecvWr { id: self.next_wr, sges: SgList::from_iter([buffer]) };
        if self.endpoint.post_recv(now, self.pairs[pair].slot, wr).is_ok() {
            let posted = Posted { id: self.next_wr, buffer: Some(buffer) };
            self.pairs[pair].receives.push_back(posted);
        } else {
            self.memory.give_back(buffer, 0);
        }
    }

    /// Takes in a datagram, as the engine does.
    pub(crate) fn receive(&mut self, now: Time, bytes: &[u8]) {
        match Packet::decode(bytes) {
            Ok(Packet::Data(header, payload)) => {
                let Some(slot) = self.slot_of(header.qp) else { return };
                let (path, congestion) = (PathId::new(header.psn as u16 % 4), false);
                let arrival =
                    Arrival { header: &header, path, congestion, may_be_replied_to: false };
                let admit = self.endpoint.on_arrival(now, slot, &arrival, &self.memory);
                if let Admit::Take(landing) = admit {
                    let memory = &mut self.memory;
                    kit::land(&landing, payload, |piece, part| memory.place(piece, part));
                    self.endpoint.placed(now, slot, &self.memory);
                }
            }
            Ok(Packet::Ack(ack)) => {
                if let Some(slot) = self.slot_of(ack.qp) {
                    self.endpoint.on_ack(now, slot, &ack, &mut self.rails);
                }
            }
            Ok(Packet::Control(control)) => self.on_control(now, &control),
            Ok(Packet::Probe(probe)) => {
                if let Some(slot) = self.slot_of(probe.qp) {
                    self.endpoint.on_probe(now, slot, RailId::FIRST, &probe);
                }
            }
            Ok(Packet::Part(..) | Packet::Setup(_) | Packet::Sealed(_)) | Err(_) => {}
        }
    }

    fn on_control(&mut self, now: Time, control: &Control) {
        if control.kind == ControlKind::Confirm {
            self.disconnects.confirm(control, |_| true);
        } else if let Some(slot) = self.slot_of(control.qp) {
            let left_by = Egress::Port(RailId::FIRST);
            if self.endpoint.on_control(now, slot, control, left_by, &mut self.rails) {
                self.disconnects.on_peer_ended(control, |_| true);
            }
        } else {
            self.disconnects.on_stray(now, control, |_| true);
        }
    }

    fn slot_of(&self, id: QpId) -> Option<QpSlot> {
        self.pairs.iter().find(|pair| pair.id == id).map(|pair| pair.slot)
    }

    pub(crate) fn due(&self) -> Time {
        let next = [self.endpoint.next_timeout(&self.rails), self.disconnects.next_timeout()];
        next.into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Lets time pass, and returns what leaves: datagrams, with the queue pair that they are for.
    pub(crate) fn transmit(&mut self, now: Time) -> Vec<(QpId, Vec<u8>)> {
        let mut out = Vec::new();
        for _ in 0..ROUNDS {
            if self.due() <= now {
                self.endpoint.on_timeout(now, &mut self.rails);
            }
            while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.rails) {
                assert!(out.len() < MANY, "poll_transmit does not come to an end");
                out.extend(self.encode(now, transmit));
            }
            while let Some(disconnect) = self.endpoint.poll_disconnect() {
                self.disconnects.insert(now, (), disconnect);
            }
            while let Some(due) = self.disconnects.poll_transmit(now) {
                let mut bytes = Vec::new();
                due.control.encode(&mut bytes);
                out.push((due.control.qp, bytes));
            }
            // "Not ready, come back in 0 us" makes a timer that is due at once.
            if self.due() > now {
                break;
            }
        }
        assert!(self.due() > now, "a timer that was due stays due");
        while self.endpoint.poll_event().is_some() {}
        out
    }

    fn encode(&mut self, now: Time, transmit: Transmit) -> Option<(QpId, Vec<u8>)> {
        let mut bytes = Vec::new();
        let to = match transmit.body {
            TransmitBody::Segment { header, gather, pd, access, .. } => {
                assert_eq!(pd, PD);
                let Some(payload) = self.memory.gather(pd, access, &gather) else {
                    self.endpoint.unreadable(now, transmit.slot, &header);
                    return None;
                };
                header.encode(&mut bytes);
                bytes.extend(payload);
                header.qp
            }
            TransmitBody::Ack(ack) => {
                ack.encode(&mut bytes);
                ack.qp
            }
            TransmitBody::Control(control) => {
                control.encode(&mut bytes);
                control.qp
            }
            TransmitBody::Probe(probe) => {
                probe.encode(&mut bytes);
                probe.qp
            }
        };
        assert!(Packet::decode(&bytes).is_ok(), "what is sent cannot be decoded");
        Some((to, bytes))
    }

    /// What has ended. Each work request does so once, in posting order.
    pub(crate) fn collect(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(completion) = self.endpoint.poll_completion() {
            let pair = self.pairs.iter().position(|pair| pair.id == completion.qp);
            let pair = pair.expect("a completion of a queue pair that is gone");
            let queue = match completion.work.is_recv() {
                true => &mut self.pairs[pair].receives,
                false => &mut self.pairs[pair].sends,
            };
            let posted = queue.pop_front().expect("a completion of nothing");
            assert_eq!(posted.id, completion.wr_id, "out of order: {completion:?}");
            let filled = match (completion.status, completion.work) {
                (Status::Success, Work::RecvWriteImm) => 0,
                (Status::Success, _) => completion.len,
                _ => 0,
            };
            let bytes = posted.buffer.map(|buffer| self.memory.give_back(buffer, filled));
            ended.push(Ended { pair, completion, bytes: bytes.unwrap_or_default() });
        }
        ended
    }
}
