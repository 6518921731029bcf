//! Two hosts, their queue pairs, and the link between them.

use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, RailScheme, Rails};
use braid_transport::{
    Admit, EndpointConfig, QpConfig, QpCounters, QpSlot, QpState, RecvWr, Refusal, Remote, SendOp,
    Status, Transmit, TransmitBody,
};
use braid_wire::{DATA_HEADER_LEN, DataHeader, PathId, QpId, Time, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::kit::{self, Everything, Wire};

/// Wraps soon.
pub(crate) const FIRST_PSN: u32 = 0xFF_FFF0;
/// Bytes of an acknowledgement or a control packet, approximately.
const CONTROL_LEN: u64 = 64;

/// Parameters of queue pairs, endpoints and the link.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) qps: usize,
    pub(crate) rails: usize,
    pub(crate) qp: QpConfig,
    pub(crate) endpoint: EndpointConfig,
    pub(crate) policy: LbPolicy,
    pub(crate) bytes_per_us: u64,
    /// From the end of the queue to the other host.
    pub(crate) delay: Duration,
    pub(crate) mtu: u16,
    /// Bytes that a queue holds before it drops.
    pub(crate) queue: u64,
    /// The share of packets that get lost behind it.
    pub(crate) loss: f64,
    /// The interval at which a host takes in packets.
    pub(crate) wakes_every: Duration,
    pub(crate) seed: u64,
    /// Whether the wire reorders packets of one path.
    pub(crate) reordering: Reordering,
}

/// Packets of one path overtake each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Reordering {
    None,
    /// The delay of each packet differs by up to so much, either way.
    Jitter(Duration),
    /// This share of the packets has no delay.
    Skip(f64),
}

impl Reordering {
    fn delay(self, usual: Duration, rng: &mut Pcg64Mcg) -> Duration {
        match self {
            Reordering::None => usual,
            Reordering::Jitter(most) => usual - most + most.mul_f64(2.0 * rng.random::<f64>()),
            Reordering::Skip(share) => {
                if rng.random_bool(share) {
                    Duration::ZERO
                } else {
                    usual
                }
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            qps: 1,
            rails: 1,
            qp: QpConfig::default(),
            endpoint: EndpointConfig { batch_segments: 15, ..EndpointConfig::default() },
            policy: LbPolicy::ROUND_ROBIN,
            bytes_per_us: 10_000,
            delay: Duration::from_micros(5),
            mtu: 4096,
            queue: u64::MAX,
            loss: 0.0,
            wakes_every: Duration::from_nanos(1),
            seed: 9,
            reordering: Reordering::None,
        }
    }
}

/// One direction of the link: a queue, and a wire.
#[derive(Debug)]
struct Pipe {
    /// When the last byte of what is in it has left.
    free_at: Time,
    packets: Wire<Transmit>,
    rng: Pcg64Mcg,
}

impl Pipe {
    fn new(seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Pipe { free_at: Time::ZERO, packets: Wire::default(), rng }
    }

    /// Takes a packet of so many bytes.
    fn take(&mut self, now: Time, len: u64, settings: &Settings, packet: Transmit) {
        let queued = self.free_at.saturating_since(now).as_micros() as u64 * settings.bytes_per_us;
        if queued.saturating_add(len) > settings.queue {
            return;
        }
        let takes = Duration::from_nanos(len * 1_000 / settings.bytes_per_us);
        self.free_at = self.free_at.max(now) + takes;
        if self.rng.random_bool(settings.loss) {
            return;
        }
        let arrives = self.free_at + settings.reordering.delay(settings.delay, &mut self.rng);
        let arrives = arrives.as_nanos().next_multiple_of(settings.wakes_every.as_nanos() as u64);
        self.packets.send(Time::from_nanos(arrives), packet);
    }
}

pub(crate) struct Host {
    pub(crate) inner: kit::Host,
    pub(crate) slots: Vec<QpSlot>,
    arriving: Pipe,
    /// Work requests that have completed, by queue pair.
    pub(crate) completed: Vec<usize>,
    /// The queue pairs of all completions, in their order.
    pub(crate) order: Vec<usize>,
    /// Completions of the same queue pair so far, at each of them.
    pub(crate) count: Vec<usize>,
    /// Reasons for refused segments.
    pub(crate) refusals: Vec<Refusal>,
    /// The number of queue pairs, the first ones, whose packets are lost.
    pub(crate) cut_off: usize,
    /// The number of segments at the end of a message that are lost next.
    pub(crate) loses_ends: usize,
    /// Segments that have left.
    pub(crate) segments: usize,
    /// Turns in which segments have left.
    pub(crate) departures: usize,
}

/// The queue pair with this index has the same number on both sides.
fn number(index: usize) -> QpId {
    QpId::new(index as u32 + 1)
}

fn index_of(id: QpId) -> usize {
    id.get() as usize - 1
}

fn refusal(admit: Admit) -> Option<Refusal> {
    match admit {
        Admit::Refuse(refusal) => Some(refusal),
        Admit::Take(_) | Admit::Duplicate | Admit::Singly => None,
    }
}

impl Host {
    fn new(now: Time, settings: &Settings) -> Self {
        let paths = || PathSet::new(settings.policy, 16, 1).unwrap();
        let further = (1..settings.rails as u32).map(|rail| (paths(), rail));
        let rails = Rails::new(RailScheme::default(), paths(), further);
        let mut inner = kit::Host::new(now, settings.endpoint, rails);
        let slots = (0..settings.qps).map(|index| {
            let name = (number(index), Token(index as u32));
            let remote = Remote {
                mtu: settings.mtu,
                window: settings.qp.window,
                max_rd_atomic: settings.qp.max_rd_atomic,
                ..kit::remote(name, FIRST_PSN)
            };
            inner.connect(now, name, settings.qp.clone(), remote)
        });
        let slots = slots.collect();
        Host {
            inner,
            slots,
            arriving: Pipe::new(settings.seed),
            completed: vec![0; settings.qps],
            order: Vec::new(),
            count: Vec::new(),
            refusals: Vec::new(),
            cut_off: 0,
            loses_ends: 0,
            segments: 0,
            departures: 0,
        }
    }

    fn receive(&mut self, now: Time, memory: &Everything) {
        while let Some(packet) = self.arriving.packets.arrive(now) {
            let slot = self.slots[index_of(kit::peer_of(&packet.body))];
            let admit = self.inner.receive(now, slot, &packet, memory);
            self.refusals.extend(admit.and_then(refusal));
        }
        self.inner.run_timers(now);
        while self.inner.endpoint.poll_event().is_some() {}
        for completion in self.inner.completions() {
            let index = index_of(completion.qp);
            let is_done = completion.status == Status::Success;
            assert!(is_done || index < self.cut_off, "{completion:?}");
            self.completed[index] += 1;
            self.order.push(index);
            self.count.push(self.completed[index]);
        }
    }

    /// When the next packet arrives, or a timer goes off.
    fn next(&self) -> Time {
        let timeout = self.inner.next_timeout().expect("it has queue pairs, so a timer runs");
        timeout.min(self.arriving.packets.next_arrival())
    }

    /// All its queue pairs' together.
    pub(crate) fn counters(&self) -> QpCounters {
        let all = self.slots.iter().map(|slot| self.inner.endpoint.qp(*slot).counters());
        all.fold(QpCounters::default(), |mut sum, counters| {
            sum += counters;
            sum
        })
    }
}

/// The hosts: 0 is the requester, 1 the responder.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) hosts: [Host; 2],
    pub(crate) memory: Everything,
    settings: Settings,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let now = Time::from_nanos(1_000_000);
        let hosts = [Host::new(now, &settings), Host::new(now, &settings)];
        World { now, hosts, memory: Everything::new(), settings }
    }

    pub(crate) fn post(&mut self, qp: usize, op: SendOp, len: u32) {
        let wr = self.memory.work(op, len);
        let slot = self.hosts[0].slots[qp];
        self.hosts[0].inner.endpoint.post_send(self.now, slot, wr).expect("there is room");
    }

    /// Posts receives of so many bytes at the serving host.
    pub(crate) fn post_recvs(&mut self, qp: usize, count: usize, len: u32) {
        let Host { inner, slots, .. } = &mut self.hosts[1];
        for _ in 0..count {
            let wr = RecvWr { id: 0, sges: self.memory.sges(len) };
            inner.endpoint.post_recv(self.now, slots[qp], wr).expect("there is room");
        }
    }

    /// Runs until so many work requests in all have completed.
    ///
    /// # Panics
    /// If that takes longer than `limit`.
    pub(crate) fn run(&mut self, completions: usize, limit: Duration) {
        let end = self.now + limit;
        self.transmit(0);
        while self.hosts[0].order.len() < completions {
            let next = self.hosts.iter().map(Host::next).min().expect("two hosts");
            let completed = self.hosts[0].order.len();
            assert!(next <= end, "{completed} of {completions} completed in {limit:?}");
            self.step(next);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.hosts.iter().map(Host::next).min().filter(|at| *at <= end) {
            self.step(next);
        }
        self.now = end;
    }

    /// Runs until a queue pair of the asking host has ended. Returns the time.
    ///
    /// # Panics
    /// If that takes longer than `limit`.
    pub(crate) fn until_end(&mut self, qp: usize, limit: Duration) -> Time {
        let (end, slot) = (self.now + limit, self.hosts[0].slots[qp]);
        while self.hosts[0].inner.state(slot) != QpState::Error {
            let next = self.hosts.iter().map(Host::next).min().expect("two hosts");
            assert!(next <= end, "not ended in {limit:?}");
            self.step(next);
        }
        self.now
    }

    fn step(&mut self, next: Time) {
        self.now = self.now.max(next);
        for host in 0..2 {
            self.hosts[host].receive(self.now, &self.memory);
            self.transmit(host);
        }
    }

    /// Sends everything that a host has to send.
    pub(crate) fn transmit(&mut self, from: usize) {
        let [a, b] = &mut self.hosts;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        let before = from.segments;
        for packet in from.inner.transmit(self.now) {
            let len = match &packet.body {
                TransmitBody::Segment { header, .. } => {
                    from.segments += 1;
                    u64::from(header.len) + DATA_HEADER_LEN as u64
                }
                _ => CONTROL_LEN,
            };
            let index = index_of(kit::peer_of(&packet.body));
            let ends = matches!(&packet.body, TransmitBody::Segment { header, .. } if header.last);
            let is_lost = ends && from.loses_ends > 0;
            from.loses_ends -= usize::from(is_lost);
            if !is_lost && index >= from.cut_off {
                to.arriving.take(self.now, len, &self.settings, packet);
            }
        }
        from.departures += usize::from(from.segments > before);
    }

    /// A segment from nowhere arrives at a host.
    pub(crate) fn inject(&mut self, to: usize, header: &DataHeader) {
        let host = &mut self.hosts[to];
        let slot = host.slots[index_of(header.qp)];
        let arrival = kit::arrival(header, PathId::default());
        let admit = host.inner.receive_segment(self.now, slot, &arrival, &self.memory);
        host.refusals.extend(refusal(admit));
    }

    /// Returns everything that a host has to send, which reaches nobody.
    pub(crate) fn drain(&mut self, from: usize) -> Vec<TransmitBody> {
        self.hosts[from].inner.transmit(self.now).map(|packet| packet.body).collect()
    }
}
