//! One host: an endpoint, its memory, its driver, and the work requests of its queue pairs.

use std::collections::VecDeque;

use braid_transport::{
    Admit, Arrival, Completion, Disconnects, Egress, QpConfig, QpSlot, QpState, RecvWr, Remote,
    SendOp, SendWr, SgList, Sge, Status, Transmit, TransmitBody, Work,
};
use braid_wire::{Control, DataRun, Packet, PathId, QpId, RailId, Time, Token};

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

/// The parameters of this host's end of a connection.
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
    inner: kit::Host,
    pub(crate) memory: HostMemory,
    pub(crate) pairs: Vec<Pair>,
    /// Told to peers until they confirm them.
    disconnects: Disconnects<()>,
    next_wr: u64,
}

impl Host {
    pub(crate) fn new(inner: kit::Host, memory: HostMemory) -> Self {
        let disconnects = Disconnects::new(4);
        Host { inner, memory, pairs: Vec::new(), disconnects, next_wr: 0 }
    }

    fn adopt(&mut self, now: Time, end: LocalEnd) -> Pair {
        let LocalEnd { id, token, config, remote } = end;
        let config = QpConfig { pd: PD, ..config };
        let slot = self.inner.connect(now, (id, token), config, remote);
        Pair { id, slot, sends: VecDeque::new(), receives: VecDeque::new() }
    }

    pub(crate) fn connect(&mut self, now: Time, end: LocalEnd) {
        let pair = self.adopt(now, end);
        self.pairs.push(pair);
    }

    /// Replaces a queue pair, whose work requests have all ended, by another.
    pub(crate) fn replace(&mut self, now: Time, pair: usize, end: LocalEnd) {
        self.release(now, pair);
        self.pairs[pair] = self.adopt(now, end);
    }

    pub(crate) fn release(&mut self, now: Time, pair: usize) {
        let Pair { slot, ref sends, ref receives, .. } = self.pairs[pair];
        assert!(sends.is_empty() && receives.is_empty(), "work requests of {pair} never end");
        self.inner.release(now, slot);
    }

    pub(crate) fn end(&mut self, now: Time, pair: usize) {
        self.inner.end(now, self.pairs[pair].slot);
    }

    pub(crate) fn state(&self, pair: usize) -> QpState {
        self.inner.state(self.pairs[pair].slot)
    }

    pub(crate) fn sends(&self, pair: usize) -> usize {
        self.pairs[pair].sends.len()
    }

    pub(crate) fn receives(&self, pair: usize) -> usize {
        self.pairs[pair].receives.len()
    }

    /// Posts a request whose payload comes from, or goes to, this buffer. Returns false if it was
    /// refused.
    pub(crate) fn post_send(&mut self, now: Time, pair: usize, op: SendOp, buffer: Sge) -> bool {
        self.next_wr += 1;
        let id = self.next_wr;
        let sges = SgList::from_iter([buffer]);
        let wr = SendWr { id, op, sges, signalled: true, solicited: false, fence: false };
        let taken = self.inner.endpoint.post_send(now, self.pairs[pair].slot, wr).is_ok();
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
        if self.inner.endpoint.post_recv(now, self.pairs[pair].slot, wr).is_ok() {
            let posted = Posted { id: self.next_wr, buffer: Some(buffer) };
            self.pairs[pair].receives.push_back(posted);
        } else {
            self.memory.give_back(buffer, 0);
        }
    }

    /// Takes in datagrams that have arrived together, as the engine does: those that continue each
    /// other in one run.
    pub(crate) fn receive(&mut self, now: Time, datagrams: &[Vec<u8>]) {
        let mut left = datagrams;
        while let [first, others @ ..] = left {
            let taken = self.take(now, first, others);
            left = &left[taken..];
        }
    }

    /// Takes in a datagram, and those of `others` that continue it. Returns their number.
    fn take(&mut self, now: Time, bytes: &[u8], others: &[Vec<u8>]) -> usize {
        let Ok(Packet::Data(header, payload)) = Packet::decode(bytes) else {
            self.take_other(now, bytes);
            return 1;
        };
        let Some(slot) = self.slot_of(header.qp) else { return 1 };
        let mut run = DataRun::new(bytes, header);
        let mut payload = payload.to_vec();
        for next in others {
            let Some(segment) = run.next(next) else { break };
            payload.extend_from_slice(segment.payload);
            run.push(&segment);
        }
        let path = PathId::new(header.psn as u16 % 4);
        let (segments, stamp) = (run.segments(), run.stamp());
        let arrival = Arrival { segments, stamp, ..kit::arrival(run.header(), path) };
        let Host { inner: kit::Host { endpoint, .. }, memory, .. } = self;
        match endpoint.on_arrival(now, slot, &arrival, memory) {
            Admit::Take(landing) => {
                kit::land(&landing, &payload, |piece, part| memory.place(piece, part));
                endpoint.placed(now, slot, memory);
            }
            Admit::Singly => {
                assert!(segments > 1, "a single packet is decided on");
                self.take(now, bytes, &[]);
                for next in &others[..segments as usize - 1] {
                    self.take(now, next, &[]);
                }
            }
            Admit::Duplicate | Admit::Refuse(_) => {
                assert_eq!(segments, 1, "a run is taken or handed in singly");
            }
        }
        segments as usize
    }

    fn take_other(&mut self, now: Time, bytes: &[u8]) {
        match Packet::decode(bytes) {
            Ok(Packet::Ack(ack)) => {
                if let Some(slot) = self.slot_of(ack.qp) {
                    self.inner.on_ack(now, slot, &ack);
                }
            }
            Ok(Packet::Credit(credit)) => {
                if let Some(slot) = self.slot_of(credit.qp) {
                    self.inner.on_credit(now, slot, &credit);
                }
            }
            Ok(Packet::Control(control)) => self.on_control(now, &control),
            Ok(Packet::Probe(probe)) => {
                if let Some(slot) = self.slot_of(probe.qp) {
                    self.inner.endpoint.on_probe(now, slot, RailId::FIRST, &probe);
                }
            }
            Ok(Packet::Data(..) | Packet::Part(..) | Packet::Setup(_) | Packet::Sealed(_))
            | Err(_) => {}
        }
    }

    fn on_control(&mut self, now: Time, control: &Control) {
        let qp = self.slot_of(control.qp).map(|slot| (&mut self.inner, slot));
        let left_by = Egress::Port(RailId::FIRST);
        kit::on_control(now, qp, (control, left_by), &mut self.disconnects, |()| true);
    }

    fn slot_of(&self, id: QpId) -> Option<QpSlot> {
        self.pairs.iter().find(|pair| pair.id == id).map(|pair| pair.slot)
    }

    pub(crate) fn due(&self) -> Time {
        let next = [self.inner.next_timeout(), self.disconnects.next_timeout()];
        next.into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Lets time pass. Returns the datagrams that leave, each with the queue pair that it is for.
    pub(crate) fn transmit(&mut self, now: Time) -> Vec<(QpId, Vec<u8>)> {
        let mut out = Vec::new();
        for _ in 0..ROUNDS {
            if self.due() <= now {
                self.inner.on_timeout(now);
            }
            while let Some(transmit) = self.inner.poll_transmit(now) {
                assert!(out.len() < MANY, "poll_transmit does not come to an end");
                out.extend(self.encode(now, transmit));
            }
            self.inner.begin_disconnects(now, &(), &mut self.disconnects);
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
        while self.inner.endpoint.poll_event().is_some() {}
        out
    }

    fn encode(&mut self, now: Time, transmit: Transmit) -> Option<(QpId, Vec<u8>)> {
        let mut payload = Vec::new();
        if let TransmitBody::Segment { header, gather, pd, access, .. } = &transmit.body {
            assert_eq!(*pd, PD);
            let Some(gathered) = self.memory.gather(*pd, *access, gather) else {
                self.inner.endpoint.unreadable(now, transmit.slot, header);
                return None;
            };
            payload = gathered;
        }
        Some((kit::peer_of(&transmit.body), kit::encode(&transmit.body, &payload)))
    }

    /// Returns the work requests that have ended, each once and in posting order.
    pub(crate) fn collect(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for completion in self.inner.completions() {
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
