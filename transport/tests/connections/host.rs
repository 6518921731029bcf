//! One host: its workers, its listener, and an application that connects, accepts, sends and ends
//! at random.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::{
    Backlog, Completion, ConnectError, QpState, RecvWr, Reply, Request, Responder, SendOp, SendWr,
    Status,
};
use braid_wire::{Packet, QpId, RejectReason, Setup, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::memory::{Area, HostMemory, MESSAGES, target};
use crate::network::{Datagram, Network};
use crate::record::{End, Record, length, peer_of};
use crate::worker::{Outcome, Worker};

pub(crate) const WORKERS: usize = 3;
/// Queue pairs that connect, and those that accept.
pub(crate) const INITIATORS: usize = 4;
const ACCEPTORS: usize = 12;
const BACKLOG: usize = 8;
/// Requests that the application holds before it answers one.
const HELD: usize = 4;
/// The listener's port; the other workers' follow.
const PORT: u16 = 4791;
/// Ids of receives, to tell them from sends.
const RECV_ID: u64 = 100;

/// The behaviour of all applications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    /// They connect, refuse, give up and end connections at random.
    Wild,
    /// They begin nothing new, and end every connection.
    Closing,
    /// Every attempt is to succeed.
    Orderly,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Connecting,
    Live,
    /// Failed or finished; its application destroys it next.
    Over,
}

/// A place for a queue pair, and for its memory.
struct Slot {
    phase: Phase,
    /// When the application looks at it next.
    at: Time,
    worker: usize,
    /// A queue pair that has tried in vain tries again.
    qp: Option<QpId>,
    end: End,
    /// The place of the peer, and its key.
    peer: (usize, u32),
    posted: usize,
    sent: u64,
    received: u64,
    /// A work request has failed.
    broken: bool,
}

impl Slot {
    const EMPTY: Slot = Slot {
        phase: Phase::Idle,
        at: Time::FAR_FUTURE,
        worker: 0,
        qp: None,
        end: 0,
        peer: (0, 0),
        posted: 0,
        sent: 0,
        received: 0,
        broken: false,
    };

    /// Whether both ends have received all messages of the other.
    fn is_whole(&self) -> bool {
        !self.broken && self.sent == 2 * MESSAGES as u64 && self.received == MESSAGES as u64
    }
}

pub(crate) struct Host {
    index: usize,
    workers: Vec<Worker>,
    responder: Responder<(usize, QpId)>,
    backlog: Option<Backlog>,
    /// Taken from the backlog and not answered.
    requests: Vec<Request>,
    /// Attempts that it has answered.
    answered: HashSet<u64>,
    accept_at: Time,
    memory: HostMemory,
    slots: Vec<Slot>,
    next_qp: u32,
}

pub(crate) fn address(host: usize, worker: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], PORT + worker as u16))
}

/// The state of the world for one run of a host.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) mood: Mood,
    pub(crate) hosts: usize,
    pub(crate) rng: &'a mut Pcg64Mcg,
    pub(crate) record: &'a mut Record,
}

impl Context<'_> {
    fn soon(&mut self, most: Duration) -> Time {
        self.now + most.mul_f64(self.rng.random())
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Host {
    pub(crate) fn new(index: usize, now: Time, rng: &mut Pcg64Mcg) -> Self {
        let instance = rng.random();
        let worker = |worker| Worker::new(address(index, worker), instance);
        let initiator = |_| Slot { at: now + ms(100).mul_f64(rng.random()), ..Slot::EMPTY };
        let mut slots: Vec<Slot> = (0..INITIATORS).map(initiator).collect();
        slots.extend((0..ACCEPTORS).map(|_| Slot::EMPTY));
        Host {
            index,
            workers: (0..WORKERS).map(worker).collect(),
            responder: Responder::new(rng.random()),
            backlog: Some(Backlog::new(BACKLOG)),
            requests: Vec::new(),
            answered: HashSet::new(),
            accept_at: now,
            memory: HostMemory::new(slots.len(), rng.random()),
            slots,
            next_qp: rng.random_range(2..1 << 20),
        }
    }

    /// Every initiator begins now.
    pub(crate) fn begin(&mut self, now: Time) {
        self.slots[..INITIATORS].iter_mut().for_each(|slot| slot.at = now);
    }

    pub(crate) fn take(&mut self, datagram: &Datagram, context: &mut Context<'_>) {
        let &Datagram { to, from, ref bytes, .. } = datagram;
        let worker = usize::from(to.port() - PORT);
        // Nothing receives on the ports of paths.
        if worker >= WORKERS {
            return;
        }
        match Packet::decode(bytes).expect("what was sent") {
            Packet::Setup(setup @ (Setup::Hello(_) | Setup::Connect(_))) => {
                assert_eq!(worker, 0, "nobody listens there");
                self.on_request(from, &setup, context);
            }
            packet => self.workers[worker].take(context.now, from, packet, &mut self.memory),
        }
    }

    fn on_request(&mut self, from: SocketAddr, setup: &Setup, context: &mut Context<'_>) {
        let now = context.now;
        match setup {
            Setup::Hello(hello) => {
                let answer = self.responder.on_hello(now, from, *hello, self.backlog.is_some());
                self.workers[0].send_setup(from, &answer);
            }
            Setup::Connect(connect) => {
                let backlog = self.backlog.as_mut();
                match self.responder.on_connect(now, from, connect, backlog, |_| true) {
                    Reply::Requested => {
                        let waiting = self.backlog.as_ref().map_or(0, Backlog::len);
                        assert!(waiting <= BACKLOG, "{waiting} requests wait");
                    }
                    Reply::Pending => {}
                    Reply::Repeat((worker, qp)) => {
                        context.record.repeated += 1;
                        self.workers[worker].answer_connect(qp);
                    }
                    Reply::Rejected(reject) => {
                        self.workers[0].send_setup(from, &Setup::Reject(reject));
                    }
                }
            }
            _ => {}
        }
    }

    /// Does everything that is due, and sends the results.
    pub(crate) fn run(&mut self, network: &mut Network, context: &mut Context<'_>) {
        self.run_workers(context);
        self.listen(context);
        for slot in 0..self.slots.len() {
            if self.slots[slot].at <= context.now {
                self.act(slot, context);
            }
        }
        self.run_workers(context);
        for worker in &mut self.workers {
            for (to, path, bytes) in worker.out.drain(..) {
                network.send(context.now, worker.addr, path, to, &bytes);
            }
        }
    }

    pub(crate) fn next(&self) -> Time {
        let workers = self.workers.iter().map(Worker::next_timeout);
        let slots = self.slots.iter().map(|slot| slot.at);
        workers.chain(slots).min().unwrap_or(Time::FAR_FUTURE).min(self.accept_at)
    }

    fn run_workers(&mut self, context: &mut Context<'_>) {
        for worker in 0..WORKERS {
            for (qp, outcome) in self.workers[worker].run(context.now, &self.memory) {
                self.on_outcome(worker, qp, outcome, context);
            }
            self.collect(worker, context);
            context.record.declined += std::mem::take(&mut self.workers[worker].declined);
            for qp in std::mem::take(&mut self.workers[worker].failed) {
                if let Some(slot) = self.slot_of(qp) {
                    context.record.failed += 1;
                    let at = context.soon(ms(50));
                    let slot = &mut self.slots[slot];
                    (slot.phase, slot.at) = (Phase::Over, at);
                }
            }
        }
    }

    fn slot_of(&self, qp: QpId) -> Option<usize> {
        self.slots.iter().position(|slot| slot.qp == Some(qp))
    }

    fn collect(&mut self, worker: usize, context: &mut Context<'_>) {
        for completion in std::mem::take(&mut self.workers[worker].completions) {
            let slot = self.slot_of(completion.qp).expect("a queue pair that is there");
            if completion.wr_id >= RECV_ID {
                self.on_receive(slot, &completion, context.record);
            } else {
                self.on_send(slot, &completion, context.record);
            }
            let is_whole = slot < INITIATORS && self.slots[slot].is_whole();
            context.record.whole += u64::from(is_whole);
        }
    }

    fn on_receive(&mut self, piece: usize, completion: &Completion, record: &mut Record) {
        let slot = &mut self.slots[piece];
        assert_eq!(completion.wr_id, RECV_ID + slot.received, "{completion:?}");
        slot.received += 1;
        if completion.status != Status::Success {
            slot.broken = true;
            return;
        }
        assert!(!slot.broken, "{completion:?} after a failure");
        let (index, sender) = (slot.received as usize - 1, peer_of(slot.end));
        let len = length(sender, index);
        assert_eq!(completion.len as usize, len, "{completion:?}");
        for area in [Area::Received, Area::Written] {
            self.memory.check(piece, area, index, len, sender);
        }
        record.receive(slot.end, index);
    }

    fn on_send(&mut self, slot: usize, completion: &Completion, record: &mut Record) {
        let slot = &mut self.slots[slot];
        assert_eq!(completion.wr_id, slot.sent, "{completion:?}");
        assert!(slot.sent < 2 * slot.posted as u64, "{completion:?} was never posted");
        slot.sent += 1;
        if completion.status != Status::Success {
            slot.broken = true;
            return;
        }
        assert!(!slot.broken, "{completion:?} after a failure");
        let (is_send, index) = (completion.wr_id % 2 == 1, completion.wr_id as usize / 2);
        let arrived = record.has(peer_of(slot.end), index);
        assert!(!is_send || arrived, "{completion:?}, but nobody has got it");
    }

    fn on_outcome(&mut self, worker: usize, qp: QpId, outcome: Outcome, context: &mut Context<'_>) {
        let index = self.slot_of(qp).expect("it was connecting");
        let slot = &mut self.slots[index];
        assert_eq!((slot.phase, slot.worker), (Phase::Connecting, worker));
        let record = &mut *context.record;
        match outcome {
            Ok((_, accept)) => {
                record.connected += 1;
                slot.peer = place_of(&accept.private_data);
                slot.phase = Phase::Live;
            }
            Err(error) => {
                assert_ne!(context.mood, Mood::Orderly, "{error}");
                match error {
                    ConnectError::TimedOut => record.timed_out += 1,
                    ConnectError::Rejected(_) => record.rejected += 1,
                    // Losses alone look like a narrow path at times.
                    ConnectError::PathMtu => record.timed_out += 1,
                }
                slot.phase = Phase::Idle;
            }
        }
        slot.at = context.soon(ms(20));
    }

    /// Takes requests from the backlog at random times, and answers them in any order.
    fn listen(&mut self, context: &mut Context<'_>) {
        if self.accept_at > context.now {
            return;
        }
        let (now, wild) = (context.now, context.mood == Mood::Wild);
        let wait = if wild && context.rng.random_bool(0.3) { ms(800) } else { ms(10) };
        self.accept_at = context.soon(wait);
        if wild && context.rng.random_bool(0.02) {
            return self.close(now);
        }
        let backlog = self.backlog.get_or_insert_with(|| Backlog::new(BACKLOG));
        while self.requests.len() < HELD
            && let Some(request) = backlog.pop(now)
        {
            self.requests.push(request);
        }
        self.responder.forget_stale(now, backlog);
        let keeps = if wild { context.rng.random_range(0..=self.requests.len()) } else { 0 };
        while self.requests.len() > keeps {
            let any = context.rng.random_range(0..self.requests.len());
            let request = self.requests.swap_remove(any);
            self.answer(&request, context);
        }
    }

    /// Stops listening until the application looks again. Turns down all requests that wait.
    fn close(&mut self, now: Time) {
        let Some(mut backlog) = self.backlog.take() else { return };
        while let Some(request) = backlog.pop(now) {
            self.refuse(now, &request);
        }
        self.responder.forget_stale(now, &mut backlog);
    }

    fn refuse(&mut self, now: Time, request: &Request) {
        let refused = self.responder.turn_down(now, request.attempt(), RejectReason::Refused);
        self.workers[0].send_setup(request.from.remote, &refused);
    }

    fn answer(&mut self, request: &Request, context: &mut Context<'_>) {
        let attempt = attempt_of(&request.connect.private_data);
        assert!(
            self.answered.insert(attempt),
            "attempt {attempt} asks again, and is a new request"
        );
        let refuses = match context.mood {
            Mood::Wild => context.rng.random_bool(0.05),
            Mood::Closing => true,
            Mood::Orderly => false,
        };
        let free = (INITIATORS..self.slots.len()).find(|slot| self.slots[*slot].qp.is_none());
        let Some(piece) = free.filter(|_| !refuses) else {
            assert_ne!(context.mood, Mood::Orderly, "no queue pair is free");
            return self.refuse(context.now, request);
        };
        let worker = context.rng.random_range(0..WORKERS);
        let qp = self.create(piece, worker);
        self.identify(piece, attempt << 1 | 1);
        let (data, random) = (self.private_data(piece), context.rng.random());
        self.responder.accepted(request.attempt(), (worker, qp));
        self.workers[worker].accept(context.now, qp, request, data, random);
        context.record.accepted += 1;
        let at = context.soon(ms(20));
        let slot = &mut self.slots[piece];
        slot.peer = place_of(&request.connect.private_data[8..]);
        (slot.phase, slot.at) = (Phase::Live, at);
    }

    /// A fresh queue pair, its receives posted.
    fn create(&mut self, piece: usize, worker: usize) -> QpId {
        self.next_qp += 1;
        let qp = QpId::new(self.next_qp);
        self.slots[piece] = Slot { worker, qp: Some(qp), ..Slot::EMPTY };
        self.memory.clear(piece);
        self.workers[worker].create(qp, piece);
        for index in 0..MESSAGES {
            let sges = self.memory.sges(piece, Area::Received, index, crate::memory::LONGEST);
            let wr = RecvWr { id: RECV_ID + index as u64, sges };
            self.workers[worker].post_recv(qp, wr);
        }
        qp
    }

    /// Makes the queue pair stand for this end of an attempt.
    fn identify(&mut self, piece: usize, end: End) {
        let slot = &mut self.slots[piece];
        slot.end = end;
        let qp = slot.qp.expect("just made, or tried before");
        self.workers[slot.worker].set_sender(qp, peer_of(end));
    }

    fn private_data(&self, piece: usize) -> Vec<u8> {
        let (piece, key) = (piece as u32, self.memory.key());
        [piece.to_be_bytes(), key.to_be_bytes()].concat()
    }

    fn act(&mut self, piece: usize, context: &mut Context<'_>) {
        let ends_early = context.mood == Mood::Wild && context.rng.random_bool(0.1);
        match self.slots[piece].phase {
            Phase::Idle if piece < INITIATORS && context.mood != Mood::Closing => {
                self.connect(piece, context);
            }
            Phase::Connecting if context.mood == Mood::Orderly => {
                self.slots[piece].at = Time::FAR_FUTURE;
            }
            Phase::Connecting => {
                context.record.given_up += 1;
                self.destroy(piece, context);
            }
            Phase::Live if ends_early || context.mood == Mood::Closing => {
                self.destroy(piece, context);
            }
            Phase::Live => self.go_on(piece, context),
            Phase::Idle | Phase::Over => self.destroy(piece, context),
        }
    }

    fn connect(&mut self, piece: usize, context: &mut Context<'_>) {
        let wild = context.mood == Mood::Wild;
        let worker = context.rng.random_range(0..WORKERS);
        let (worker, qp) = match self.slots[piece].qp {
            // Mostly the same queue pair tries again.
            Some(qp) if !wild || context.rng.random_bool(0.8) => (self.slots[piece].worker, qp),
            Some(_) => return self.destroy(piece, context),
            None => (worker, self.create(piece, worker)),
        };
        let attempt = context.record.attempt();
        self.identify(piece, attempt << 1);
        // Often the same one, so that old attempts and new ones meet.
        let roams = wild && context.rng.random_bool(0.3);
        let step = if roams { context.rng.random_range(1..context.hosts) } else { 1 };
        let to = address((self.index + step) % context.hosts, 0);
        let mut data = attempt.to_be_bytes().to_vec();
        data.extend(self.private_data(piece));
        let limits = [ms(1), ms(20), ms(100), ms(400), ms(3_000)];
        let limit = limits[context.rng.random_range(0..limits.len())];
        let timeout = if wild { limit } else { Duration::from_secs(10) };
        let secrets = context.rng.random();
        self.workers[worker].connect(context.now, qp, to, data, timeout, secrets);
        let gives_up = wild && context.rng.random_bool(0.05);
        let at = if gives_up { context.soon(timeout) } else { Time::FAR_FUTURE };
        let slot = &mut self.slots[piece];
        (slot.phase, slot.at) = (Phase::Connecting, at);
    }

    /// Posts the next message, or waits for the end.
    fn go_on(&mut self, piece: usize, context: &mut Context<'_>) {
        let (worker, qp) = (self.slots[piece].worker, self.slots[piece].qp.expect("it lives"));
        let slot = &mut self.slots[piece];
        if slot.is_whole() {
            (slot.phase, slot.at) = (Phase::Over, context.soon(ms(300)));
            return;
        }
        slot.at = context.soon(ms(10));
        let posts = slot.posted < MESSAGES && !slot.broken;
        if !posts || self.workers[worker].state(qp) != QpState::ReadyToSend {
            return;
        }
        let Slot { end, peer, posted, .. } = self.slots[piece];
        let len = length(end, posted);
        self.memory.fill(piece, posted, len, end);
        let remote = target(peer.0, posted, peer.1);
        let ops = [SendOp::Write { remote, imm: None }, SendOp::Send { imm: None }];
        for (id, op) in (2 * posted as u64..).zip(ops) {
            let sges = self.memory.sges(piece, Area::Source, posted, len);
            let wr = SendWr { id, op, sges, signalled: true, solicited: false, fence: false };
            self.workers[worker].post_send(context.now, qp, wr);
        }
        self.slots[piece].posted += 1;
    }

    /// Ends a queue pair, whatever it is doing. All its work requests complete.
    fn destroy(&mut self, piece: usize, context: &mut Context<'_>) {
        let worker = self.slots[piece].worker;
        if let Some(qp) = self.slots[piece].qp {
            // Completions from before the end come first, flushed work requests after them.
            let accepted = self.workers[worker].destroy(context.now, qp);
            self.collect(worker, context);
            let Slot { sent, posted, received, .. } = self.slots[piece];
            assert_eq!(sent, 2 * posted as u64, "a send never completes");
            assert_eq!(received, MESSAGES as u64, "a receive never completes");
            if let Some(accepted) = accepted {
                let is_it = |by: &(usize, QpId)| *by == (worker, qp);
                self.responder.forget(context.now, accepted.attempt(), is_it);
            }
        }
        let again = piece < INITIATORS && context.mood == Mood::Wild;
        let at = if again { context.soon(ms(50)) } else { Time::FAR_FUTURE };
        self.slots[piece] = Slot { at, ..Slot::EMPTY };
    }

    /// Ends all that is under way.
    pub(crate) fn close_all(&mut self, context: &mut Context<'_>) {
        for piece in 0..self.slots.len() {
            self.destroy(piece, context);
        }
    }

    /// Counts the rest of connections and attempts.
    pub(crate) fn left(&mut self, now: Time) -> Vec<usize> {
        let workers = self.workers.iter().flat_map(Worker::left);
        let mut left: Vec<usize> = workers.collect();
        left.extend(self.backlog.as_ref().map(Backlog::len));
        left.extend([self.requests.len(), self.responder.remembers(now)]);
        left
    }
}

/// Returns the attempt that a request belongs to.
fn attempt_of(private_data: &[u8]) -> u64 {
    u64::from_be_bytes(private_data[..8].try_into().expect("8 bytes"))
}

/// The place of the other end, and its key.
fn place_of(private_data: &[u8]) -> (usize, u32) {
    let word = |at: usize| private_data[at..at + 4].try_into().expect("4 bytes");
    (u32::from_be_bytes(word(0)) as usize, u32::from_be_bytes(word(4)))
}
