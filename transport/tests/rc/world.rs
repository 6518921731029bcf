//! Two hosts, the network between them and the model, from the first post to the last end.

use std::ops::AddAssign;
use std::time::Duration;

use braid_transport::{PostError, QpState, RecvWr};
use braid_wire::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::host::Host;
use crate::model::{Layout, Receives, Requests, SLOTS};
use crate::network::{Arriving, Network};
use crate::plan::Plan;

const BEGIN: Time = Time::from_nanos(1_000_000);
/// Virtual time in which a scenario ends. A cut network is noticed within 8 time-outs.
const LIMIT: Duration = Duration::from_secs(20);

/// Counts over scenarios.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) rnr_naks: u64,
    pub(crate) timeouts: u64,
    /// Scenarios whose PSNs wrapped.
    pub(crate) wraps: u64,
    /// READs and atomics that arrived again.
    pub(crate) replays: u64,
    pub(crate) marks: u64,
    /// CNPs that arrived.
    pub(crate) cnps: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.rnr_naks += other.rnr_naks;
        self.timeouts += other.timeouts;
        self.wraps += other.wraps;
        self.replays += other.replays;
        self.marks += other.marks;
        self.cnps += other.cnps;
    }
}

struct World {
    now: Time,
    rng: Pcg64Mcg,
    network: Network,
    hosts: [Host; 2],
    requests: [Requests; 2],
    receives: [Receives; 2],
    /// When each host posts its next work request, and its next receive.
    post_at: [Time; 2],
    receive_at: [Time; 2],
    receive_pause: Duration,
    wrapped: bool,
    has_dcqcn: [bool; 2],
}

/// Runs one scenario.
pub(crate) fn run(seed: u64) -> Totals {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let plan = Plan::new(&mut rng);
    let layout = Layout { slot: plan.slot };
    let host =
        |index: usize| Host::new(index, plan.config.clone(), plan.remotes[index], layout.total());
    let requests = [0, 1].map(|host| Requests::new(host, layout, plan.work[host].clone()));
    let receives = [0, 1].map(|host: usize| {
        let from = 1 - host;
        let consuming = plan.work[from].iter().enumerate();
        let expected = consuming.filter(|(_, work)| work.kind.consumes_receive());
        let expected = expected.map(|(index, _)| index).collect();
        Receives { from, layout, expected, posted: 0, ended: 0 }
    });
    let begin = BEGIN;
    let mut world = World {
        now: begin,
        rng,
        network: Network::new(plan.faults),
        hosts: [host(0), host(1)],
        requests,
        receives,
        post_at: [begin; 2],
        receive_at: [begin; 2],
        receive_pause: plan.receive_pause,
        wrapped: false,
        has_dcqcn: plan.remotes.map(|remote| remote.dcqcn.is_some()),
    };
    for host in 0..2 {
        (0..plan.first_receives).for_each(|_| world.post_receive(host));
    }
    world.run();
    world.totals()
}

impl World {
    fn run(&mut self) {
        let end = self.now + LIMIT;
        loop {
            self.step();
            if self.is_over() {
                break;
            }
            let next = self.next_event();
            assert!(next < end, "no progress at {:?}: {}", self.now, self.describe());
            self.now = self.now.max(next);
        }
        // Late packets must write nothing.
        while self.network.next_arrival() < end {
            self.now = self.network.next_arrival();
            self.step();
        }
        if self.network.faults.cut_at.is_none() {
            for host in 0..2 {
                self.requests[host].check_words(&self.hosts[1 - host].memory);
            }
        }
    }

    fn describe(&self) -> String {
        let one = |host: usize| {
            let (sends, receives) = (&self.requests[host], &self.receives[host]);
            let (planned, state) = (sends.planned.len(), self.hosts[host].qp.state());
            format!(
                "host {host} {state}: {}/{}/{planned} sends, {}/{}/{} receives",
                sends.ended,
                sends.posted,
                receives.ended,
                receives.posted,
                receives.expected.len()
            )
        };
        format!("{}; {}", one(0), one(1))
    }

    /// Whether everything has ended. After a cut a host that waits for nothing notices nothing.
    fn is_over(&self) -> bool {
        let is_cut = self.network.faults.cut_at.is_some();
        (0..2).all(|host| {
            let (sends, receives) = (&self.requests[host], &self.receives[host]);
            sends.ended == sends.planned.len()
                && (is_cut || receives.ended == receives.expected.len())
        })
    }

    fn next_event(&self) -> Time {
        let mut next = self.network.next_arrival();
        for host in 0..2 {
            next = next.min(self.hosts[host].qp.next_timeout().unwrap_or(Time::FAR_FUTURE));
            if self.can_post(host) {
                next = next.min(self.post_at[host]);
            }
            if self.can_receive(host) {
                next = next.min(self.receive_at[host]);
            }
        }
        next
    }

    fn can_post(&self, host: usize) -> bool {
        let requests = &self.requests[host];
        let open = requests.posted - requests.ended;
        requests.next().is_some() && open < self.hosts[host].qp.config().max_send_wr as usize
    }

    fn can_receive(&self, host: usize) -> bool {
        let receives = &self.receives[host];
        receives.posted < receives.expected.len().min(SLOTS)
    }

    fn step(&mut self) {
        while let Some(Arriving { to, bytes, congestion }) = self.network.arrive(self.now) {
            self.hosts[to].receive(self.now, &bytes, congestion);
            self.settle(to);
        }
        for host in 0..2 {
            if self.hosts[host].qp.next_timeout().is_some_and(|at| at <= self.now) {
                self.hosts[host].qp.on_timeout(self.now);
            }
            while self.can_receive(host) && self.receive_at[host] <= self.now {
                self.post_receive(host);
                self.receive_at[host] = self.now + self.receive_pause;
            }
            while self.can_post(host) && self.post_at[host] <= self.now {
                self.post(host);
            }
            self.settle(host);
            while let Some((header, packet)) = self.hosts[host].transmit(self.now) {
                self.wrapped |= header.psn == 0xFF_FFFF;
                let ecn = self.has_dcqcn[host] && header.opcode.is_paced();
                self.network.send(self.now, &mut self.rng, (1 - host, ecn), packet);
            }
            self.settle(host);
        }
    }

    fn post_receive(&mut self, host: usize) {
        let receives = &mut self.receives[host];
        if receives.posted >= receives.expected.len() {
            return;
        }
        let memory = &self.hosts[host].memory;
        let at = receives.layout.receive(receives.posted);
        let sges = memory.sge(at, receives.layout.slot as u32);
        let wr = RecvWr { id: receives.posted as u64, sges };
        receives.posted += 1;
        self.hosts[host].qp.post_recv(wr).expect("there is room");
    }

    fn post(&mut self, host: usize) {
        let pause = self.requests[host].next().map_or(Duration::ZERO, |next| next.pause);
        let [first, second] = &mut self.hosts;
        let (own, peer) = if host == 0 { (first, second) } else { (second, first) };
        let wr = self.requests[host].take(&own.memory, &peer.memory);
        match own.qp.post_send(wr) {
            Ok(()) => {}
            Err(error @ PostError::QueueFull { .. }) => panic!("{error}"),
            Err(error) => panic!("{error}"),
        }
        self.post_at[host] = self.now + pause;
    }

    /// Checks what has ended at a host.
    fn settle(&mut self, host: usize) {
        let ended = self.hosts[host].ended();
        let may_fail = self.network.faults.cut_at.is_some();
        let [first, second] = &mut self.hosts;
        let (own, peer) = if host == 0 { (first, second) } else { (second, first) };
        for one in ended {
            if one.completion.work.is_recv() {
                let planned = &self.requests[1 - host].planned;
                self.receives[host].on_end(one, planned, &mut own.memory);
            } else {
                let memory = (&mut own.memory, &mut peer.memory);
                self.requests[host].on_end(one, memory.0, memory.1, may_fail);
            }
        }
        let failed = own.qp.state() == QpState::Error;
        assert_eq!(failed, own.qp.error().is_some());
        assert!(may_fail || !failed, "{:?}", own.qp.error());
    }

    fn totals(&self) -> Totals {
        let counters = [0, 1].map(|host| self.hosts[host].qp.counters());
        let lasted = self.now.as_nanos() - BEGIN.as_nanos();
        for sent in counters {
            assert!(sent.cnps_sent <= sent.marks_received.min(1 + lasted / 50_000), "{sent:?}");
        }
        Totals {
            completed: self.requests.iter().map(|all| all.ended as u64 - all.failed).sum(),
            failed: self.requests.iter().map(|all| all.failed).sum(),
            lost: self.network.lost,
            duplicated: self.network.duplicated,
            rnr_naks: counters.iter().map(|counters| counters.rnr_naks).sum(),
            timeouts: counters.iter().map(|counters| counters.timeouts).sum(),
            wraps: self.wrapped.into(),
            replays: counters.iter().map(|counters| counters.duplicates).sum(),
            marks: counters.iter().map(|counters| counters.marks_received).sum(),
            cnps: counters.iter().map(|counters| counters.cnps_received).sum(),
        }
    }
}
