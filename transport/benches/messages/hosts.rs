//! Two hosts with one queue pair between them, and a network in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, Rails};
use braid_transport::{
    EndpointConfig, LossRecovery, QpConfig, QpSlot, RecvWr, Remote, SendOp, Status, Transmit,
};
use braid_wire::{RailId, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::kit::{self, Everything, NAME};

const PATHS: usize = 4;
/// Full segments in a GSO call.
const BATCH_SEGMENTS: u32 = 15;
const MTU: u16 = 4096;
/// The delay of the fastest path.
const DELAY: Duration = Duration::from_micros(10);

struct Host {
    inner: kit::Host,
    slot: QpSlot,
    /// Packets under way to it, by path; the paths keep order.
    arriving: [VecDeque<(Time, Transmit)>; PATHS],
    /// Work requests that have completed.
    completed: usize,
}

impl Host {
    fn new(now: Time) -> Self {
        let config = EndpointConfig { batch_segments: BATCH_SEGMENTS, ..EndpointConfig::default() };
        let rails: Rails = PathSet::new(LbPolicy::PRO, PATHS, 1).expect("few paths").into();
        let qp = QpConfig { recovery: LossRecovery::FifoPath, ..QpConfig::default() };
        let remote = Remote { mtu: MTU, ..kit::remote(NAME, 0) };
        let mut inner = kit::Host::new(now, config, rails);
        let slot = inner.connect(now, NAME, qp, remote);
        let arriving = std::array::from_fn(|_| VecDeque::new());
        Host { inner, slot, arriving, completed: 0 }
    }

    /// Takes the packets that have arrived by now.
    fn receive(&mut self, now: Time, memory: &Everything) {
        for path in 0..PATHS {
            while self.arriving[path].front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, packet)) = self.arriving[path].pop_front() else { break };
                self.inner.receive(now, self.slot, &packet, memory);
            }
        }
        self.inner.run_timers(now);
        for completion in self.inner.completions() {
            assert_eq!(completion.status, Status::Success);
            self.completed += 1;
        }
    }

    fn is_idle(&self) -> bool {
        self.inner.endpoint.in_flight(RailId::FIRST) == 0
            && self.arriving.iter().all(VecDeque::is_empty)
    }

    /// When the next packet arrives, or a timer goes off.
    fn next(&self) -> Time {
        let arrivals = self.arriving.iter().filter_map(|path| path.front().map(|(at, _)| *at));
        let timeout = self.inner.next_timeout();
        arrivals.chain(timeout).min().expect("it has a queue pair, so a timer runs")
    }
}

pub(crate) struct Pair {
    now: Time,
    hosts: [Host; 2],
    memory: Everything,
    step: Duration,
    /// The share of packets that the network loses, and its dice.
    loss: f64,
    dice: Pcg64Mcg,
}

impl Pair {
    /// Two hosts that have had as much in flight before as they will have, so that nothing has to
    /// grow any more. Each path is slower by `step` than the one before; if it is zero, the counts
    /// do not depend on the choice of paths.
    pub(crate) fn warm(loss: f64, step: Duration) -> Self {
        let now = Time::from_nanos(1_000_000);
        let hosts = [Host::new(now), Host::new(now)];
        let memory = Everything::new();
        let dice = Pcg64Mcg::seed_from_u64(1);
        let mut pair = Pair { now, hosts, memory, step, loss: 0.0, dice };
        for _ in 0..4 {
            pair.send(0, 8);
            pair.send(1, 8);
        }
        pair.write(0, 16, 1 << 20);
        pair.settle();
        Pair { loss, ..pair }
    }

    /// Sends a message from `from` to the other, until both have heard that it is there.
    pub(crate) fn send(&mut self, from: usize, len: u32) {
        let (to, wr) = (1 - from, RecvWr { id: 0, sges: self.memory.sges(len) });
        let slot = self.hosts[to].slot;
        self.hosts[to].inner.endpoint.post_recv(self.now, slot, wr).expect("the queue is empty");
        let received = self.hosts[to].completed + 1;
        self.post(from, SendOp::Send { imm: None }, len);
        while self.hosts[to].completed < received {
            self.turn();
        }
    }

    /// Writes `count` messages to the other's memory, posted at once.
    pub(crate) fn write(&mut self, from: usize, count: usize, len: u32) {
        let remote = self.memory.remote();
        let completed = self.hosts[from].completed + count;
        for _ in 0..count {
            self.post(from, SendOp::Write { remote, imm: None }, len);
        }
        while self.hosts[from].completed < completed {
            self.turn();
        }
    }

    /// Lets what is under way arrive.
    pub(crate) fn settle(&mut self) {
        while !self.hosts.iter().all(Host::is_idle) {
            self.turn();
        }
    }

    /// Segments that the senders have declared lost.
    pub(crate) fn lost(&self) -> u64 {
        self.hosts.iter().map(|host| host.inner.endpoint.qp(host.slot).counters().lost).sum()
    }

    fn post(&mut self, from: usize, op: SendOp, len: u32) {
        let wr = self.memory.work(op, len);
        let slot = self.hosts[from].slot;
        self.hosts[from].inner.endpoint.post_send(self.now, slot, wr).expect("there is room");
        self.transmit(from);
    }

    /// Goes on to the next instant at which something happens.
    fn turn(&mut self) {
        let next = self.hosts.iter().map(Host::next).min().expect("two hosts");
        self.now = self.now.max(next);
        for host in 0..2 {
            self.hosts[host].receive(self.now, &self.memory);
            self.transmit(host);
        }
    }

    /// Sends everything that a host has to send.
    fn transmit(&mut self, from: usize) {
        let [a, b] = &mut self.hosts;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        for packet in from.inner.transmit(self.now) {
            let path = packet.egress.path().unwrap_or_default();
            if self.loss == 0.0 || !self.dice.random_bool(self.loss) {
                let at = self.now + DELAY + self.step * path.get().into();
                to.arriving[usize::from(path.get())].push_back((at, packet));
            }
        }
    }
}
