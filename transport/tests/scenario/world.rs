//! Two hosts, a network and a clock: whatever comes next happens next.

use std::time::Duration;

use braid_transport::{PdId, QpState, Remote};
use braid_wire::{Offer, QpId, Time, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::changes::Changes;
use super::host::{Host, Link, TURN};
use super::kit;
use super::memory::HostMemory;
use super::network::Network;
use super::nic_qps::NicQps;
use super::plan::Planner;
use super::queue::{Drain, Queue};
use super::sabotage::Sabotage;
use super::settings::{Settings, pick};
use super::shared::SharedReceives;
use super::trace::Trace;

/// No scenario needs nearly as many events; one that does goes round in circles.
const MAX_EVENTS: u64 = 3_000_000;

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) settings: Settings,
    pub(crate) hosts: [Host; 2],
    /// By host, then by queue pair.
    pub(crate) queues: [Vec<Queue>; 2],
    pub(crate) network: Network,
    pub(crate) trace: Trace,
    pub(crate) rng: Pcg64Mcg,
    /// A host that never runs again.
    pub(crate) silent: [bool; 2],
    /// The index of the work request that must fail, on host 0's queue pair 0.
    pub(crate) struck: Option<usize>,
    busy_until: [Time; 2],
    /// Total time in which each host has not run.
    pub(crate) away: [Duration; 2],
    /// When a host looks at completions that it has left lying.
    collect_at: [Time; 2],
    events: u64,
    /// Where applications change memory that is being sent or read.
    pub(crate) changes: Option<Changes>,
}

impl World {
    pub(crate) fn new(seed: u64, settings: Settings, sabotage: Option<Sabotage>) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x776F_726C);
        let mut memories = [0, 1].map(|_| HostMemory::new(settings.domains, rng.random()));
        let mut pairs = Vec::new();
        let mut planner = Planner::new(&mut rng, &settings, &mut memories);
        for qp in 0..settings.qps {
            let pd = PdId(qp as u32 % settings.domains);
            pairs.push(planner.pair(qp, pd, sabotage.filter(|_| qp == 0)));
        }
        let struck = planner.struck;
        let mut queues = [Vec::new(), Vec::new()];
        for [a, b] in pairs {
            queues[0].push(a);
            queues[1].push(b);
        }
        let faults = settings.faults.clone();
        let changes = settings.changes.then(|| Changes::new(seed));
        let network = Network::new(seed, faults, &settings);
        let mut hosts = hosts(&mut rng, &settings, memories);
        if let Some(capacity) = settings.shared_receives {
            for (host, queues) in hosts.iter_mut().zip(&queues) {
                let shared = host.shared.insert(SharedReceives::new(capacity));
                queues.iter().for_each(|queue| shared.plan(queue.all_receives()));
            }
        }
        let mut world = World {
            now: Time::ZERO,
            settings,
            hosts,
            queues,
            network,
            trace: Trace::new(),
            rng,
            silent: [false; 2],
            struck,
            busy_until: [Time::ZERO; 2],
            away: [Duration::ZERO; 2],
            collect_at: [Time::FAR_FUTURE; 2],
            events: 0,
            changes,
        };
        world.plan_drains();
        world
    }

    fn plan_drains(&mut self) {
        let most = self.settings.faults.calm_at.max(Time::from_nanos(1_000_000));
        for host in 0..2 {
            for queue in &mut self.queues[host] {
                if self.settings.drains && self.rng.random_bool(0.5) {
                    let at = self.rng.random_range(0..most.as_nanos());
                    queue.drain = Drain::Next(Time::from_nanos(at));
                }
            }
        }
    }

    /// Runs until the condition holds, at most until the deadline. False: the deadline came first.
    pub(crate) fn run_until(&mut self, deadline: Time, done: impl Fn(&World) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let wakes = [self.wake(0), self.wake(1)];
            let arrival = self.network.next_arrival();
            let next = arrival.min(wakes[0]).min(wakes[1]);
            if next > deadline {
                self.now = self.now.max(deadline);
                return false;
            }
            self.now = self.now.max(next);
            self.events += 1;
            assert!(self.events < MAX_EVENTS, "{MAX_EVENTS} events, and no end");
            if arrival == next {
                self.deliver();
            } else {
                self.turn(usize::from(wakes[1] == next));
            }
        }
    }

    /// Runs until the condition holds, at most until host 0 has run for so long; what it is away
    /// for counts `cost` times.
    pub(crate) fn run_host_0(
        &mut self,
        span: Duration,
        cost: f64,
        done: impl Fn(&World) -> bool,
    ) -> bool {
        let (end, away) = (self.now.max(self.busy_until[0]) + span, self.away[0]);
        loop {
            let before = self.away[0];
            if self.run_until(end + (before - away).mul_f64(cost), &done) {
                return true;
            }
            if self.away[0] == before {
                return false;
            }
        }
    }

    fn deliver(&mut self) {
        let Some((to, datagram)) = self.network.arrive() else { return };
        if !self.silent[to] {
            self.hosts[to].enqueue(datagram);
        }
    }

    fn wake(&self, host: usize) -> Time {
        if self.silent[host] {
            return Time::FAR_FUTURE;
        }
        let links = self.hosts[host].links.iter().zip(&self.queues[host]);
        let live = links.filter(|(link, _)| link.slot.is_some()).map(|(_, queue)| queue.due());
        let app = live.min().unwrap_or(Time::FAR_FUTURE);
        let due = self.hosts[host].due().min(app).min(self.collect_at[host]);
        if due == Time::FAR_FUTURE { due } else { due.max(self.busy_until[host]) }
    }

    /// A host runs: its driver and its application, as a polling process would.
    fn turn(&mut self, host: usize) {
        let most = pick(&mut self.rng, &[1, 8, 64]);
        let timers_first = self.rng.random_bool(0.3);
        let running = &mut self.hosts[host];
        if timers_first {
            running.tick(self.now);
        }
        running.receive(self.now, most, &mut self.trace);
        if let Some(shared) = &mut running.shared {
            let queues = self.queues[host].iter_mut().enumerate();
            queues.for_each(|(link, queue)| queue.recv_posted += shared.taken(link));
        }
        if !timers_first {
            running.tick(self.now);
        }
        if let Some(changes) = &mut self.changes {
            let memory = &mut self.hosts[host].memory;
            changes.change(memory, &self.queues[host], &self.queues[1 - host]);
        }
        self.act(host);
        self.hosts[host].transmit(self.now, &mut self.network, &mut self.trace);
        self.look(host);
        let next = self.hosts[host].inner.next_timeout();
        // A host that breaks off sets its timers once there is nothing more to send.
        let breaks_off = self.settings.at_once < usize::MAX;
        assert!(
            breaks_off || next.is_none_or(|at| at > self.now),
            "a timer that was due stays due"
        );
        let away = TURN + self.distraction();
        self.away[host] += away;
        self.busy_until[host] = self.now + away;
    }

    /// The application looks at its completions, now or a little later.
    fn look(&mut self, host: usize) {
        if self.collect_at[host] > self.now && self.rng.random_bool(0.2) {
            let later = Duration::from_micros(100).mul_f64(self.rng.random());
            self.collect_at[host] = self.collect_at[host].min(self.now + later);
            return;
        }
        self.collect_at[host] = Time::FAR_FUTURE;
        self.collect(host, usize::MAX);
    }

    fn distraction(&mut self) -> Duration {
        let stormy = self.now < self.settings.faults.calm_at;
        match self.rng.random_range(0..200) {
            0 if stormy => self.settings.pause.mul_f64(self.rng.random()),
            1..10 => Duration::from_micros(5).mul_f64(self.rng.random()),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn all_queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().flatten()
    }
}

/// Two endpoints, their queue pairs connected with each other.
fn hosts(rng: &mut Pcg64Mcg, settings: &Settings, memories: [HostMemory; 2]) -> [Host; 2] {
    let mut index = 0;
    let mut hosts = memories.map(|memory| {
        let rails = settings.rails.build(settings.policy, settings.paths, rng);
        let inner = kit::Host::new(Time::ZERO, settings.endpoint, rails);
        let limits = (settings.at_once, settings.longest_run);
        let host = Host::new(index, inner, memory, settings.endpoint, limits);
        index += 1;
        host
    });
    for qp in 0..settings.qps {
        let offers = [0, 1].map(|host| offer(rng, settings, host, qp));
        for (host, target) in hosts.iter_mut().enumerate() {
            let remote = Remote::agree(&offers[host], &offers[1 - host]);
            connect(target, settings, &offers[host], remote, host, qp);
        }
    }
    hosts
}

fn offer(rng: &mut Pcg64Mcg, settings: &Settings, host: usize, qp: usize) -> Offer {
    let config = &settings.qp[host];
    Offer {
        qp: QpId::new(0x100 * (host as u32 + 1) + qp as u32),
        token: Token(rng.random()),
        psn: match rng.random_range(0..3) {
            0 => rng.random::<u32>() & 0xFF_FFFF,
            1 => 0xFF_FFFF - rng.random_range(0..200),
            _ => 0,
        },
        instance: host as u64,
        // The larger one must not win.
        mtu: if host == qp % 2 { settings.mtu } else { settings.mtu + rng.random_range(0..=9) },
        receive_buffer: 1 << 20,
        window: config.window,
        max_rd_atomic: config.max_rd_atomic,
        crc: settings.crc,
        grants_credit: true,
    }
}

fn connect(
    target: &mut Host,
    settings: &Settings,
    ours: &Offer,
    remote: Remote,
    host: usize,
    qp: usize,
) {
    let pd = PdId(qp as u32 % settings.domains);
    let config = braid_transport::QpConfig { pd, ..settings.qp[host].clone() };
    let slot = target.inner.connect(Time::ZERO, (ours.qp, ours.token), config, remote);
    assert_eq!(target.inner.state(slot), QpState::ReadyToSend);
    target.links.push(Link::new(ours.qp, pd, remote, slot, NicQps::new(settings.leaks)));
}
