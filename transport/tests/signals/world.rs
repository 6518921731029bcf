//! Two hosts and a network that loses, repeats and reorders.

use std::ops::AddAssign;
use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, RailScheme, Rails};
use braid_transport::{
    Admit, EndpointConfig, QpConfig, QpSlot, Remote, Status, Transmit, TransmitBody,
};
use braid_wire::{QpId, Time, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::board::{Board, Op, ROOM};
use crate::kit::{self, Host, Wire};

/// Time within which everything completes.
const LIMIT: Duration = Duration::from_secs(60);
const PSNS: u32 = 1 << 24;

/// The counts of a scenario, or of several.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Totals {
    pub(crate) puts: usize,
    pub(crate) gets: usize,
    pub(crate) signals: usize,
    pub(crate) packets: usize,
    pub(crate) lost: usize,
    /// Packets that arrive behind a later one.
    pub(crate) overtaken: usize,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.puts += other.puts;
        self.gets += other.gets;
        self.signals += other.signals;
        self.packets += other.packets;
        self.lost += other.lost;
        self.overtaken += other.overtaken;
    }
}

/// The network of a seed.
struct Network {
    loss: f64,
    repeats: f64,
    delay: Duration,
    jitter: Duration,
}

/// The hosts: 0 puts, 1 is put to.
pub(crate) struct World {
    rng: Pcg64Mcg,
    now: Time,
    hosts: [Host; 2],
    slots: [QpSlot; 2],
    /// Packets under way to each host, with the order in which they left.
    wires: [Wire<(usize, Transmit)>; 2],
    network: Network,
    board: Board,
    posted: usize,
    completed: usize,
    /// Whether the driver reports packets before they are in place.
    is_hasty: bool,
    latest: [usize; 2],
    totals: Totals,
}

impl World {
    pub(crate) fn new(seed: u64, is_hasty: bool) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let now = Time::from_nanos(1_000_000);
        let network = Network {
            loss: pick(&mut rng, &[0.0, 0.01, 0.05, 0.2]),
            repeats: pick(&mut rng, &[0.0, 0.02]),
            delay: Duration::from_micros(rng.random_range(1..200)),
            jitter: Duration::from_micros(pick(&mut rng, &[0, 5, 100, 2_000])),
        };
        let policy = LbPolicy::ALL[rng.random_range(0..LbPolicy::ALL.len())];
        let (rails, paths) = (rng.random_range(1..=2), rng.random_range(1..=16));
        let recovery = pick(&mut rng, &["ooo-window", "fifo-path", "sack", "nic-sr", "go-back-n"]);
        let qp = QpConfig {
            recovery: recovery.parse().expect("a recovery of the table"),
            max_rd_atomic: pick(&mut rng, &[1, 4, 128]),
            ..QpConfig::default()
        };
        let mtu = pick(&mut rng, &[256, 1408, 4096]);
        let endpoint = EndpointConfig {
            batch_segments: pick(&mut rng, &[1, 15]),
            ..EndpointConfig::default()
        };
        // Near the wrap in half of the scenarios.
        let first_psn = pick(&mut rng, &[PSNS - 20, 0x1234]);
        let host = |number: u32| {
            let set = || PathSet::new(policy, paths, seed).expect("few paths");
            let further = (1..rails).map(|rail| (set(), rail));
            let rails = Rails::new(RailScheme::default(), set(), further);
            let mut host = Host::new(now, endpoint, rails);
            let name = (QpId::new(number), Token(number));
            let peer = (QpId::new(3 - number), Token(3 - number));
            let max_rd_atomic = qp.max_rd_atomic;
            let remote = Remote { mtu, max_rd_atomic, ..kit::remote(peer, first_psn) };
            let slot = host.connect(now, name, qp.clone(), remote);
            (host, slot)
        };
        let [(a, first), (b, second)] = [host(1), host(2)];
        let plan = plan(&mut rng);
        World {
            rng,
            now,
            hosts: [a, b],
            slots: [first, second],
            wires: Default::default(),
            network,
            board: Board::new(plan),
            posted: 0,
            completed: 0,
            is_hasty,
            latest: [0; 2],
            totals: Totals::default(),
        }
    }

    /// Runs until all requests have completed.
    pub(crate) fn run(mut self) -> Totals {
        let end = self.now + LIMIT;
        let plan = self.board.plan().to_vec();
        while self.completed < plan.len() {
            self.post();
            for host in 0..2 {
                self.transmit(host);
            }
            let timeouts = self.hosts.iter().filter_map(Host::next_timeout);
            let arrivals = self.wires.iter().map(Wire::next_arrival);
            let next = timeouts.chain(arrivals).min().expect("two wires");
            let completed = self.completed;
            assert!(next <= end, "{completed} of {} completed in {LIMIT:?}", plan.len());
            self.now = self.now.max(next);
            for host in 0..2 {
                self.receive(host);
            }
        }
        let count = |wanted: fn(&Op) -> bool| plan.iter().filter(|op| wanted(op)).count();
        let totals = Totals {
            puts: count(|op| matches!(op, Op::Put(_))),
            gets: count(|op| matches!(op, Op::Get(_))),
            signals: count(|op| *op == Op::Signal),
            ..self.totals
        };
        assert_eq!(self.board.signals(), totals.signals, "signals have taken effect");
        totals
    }

    /// Posts some of what is left.
    fn post(&mut self) {
        let room = QpConfig::default().max_send_wr as usize;
        let most = self.rng.random_range(0..8);
        for _ in 0..most {
            let is_full = self.posted - self.completed >= room;
            if self.posted == self.board.plan().len() || is_full {
                break;
            }
            let wr = self.board.work(self.posted);
            let posted = self.hosts[0].endpoint.post_send(self.now, self.slots[0], wr);
            posted.expect("there is room");
            self.posted += 1;
        }
    }

    fn transmit(&mut self, from: usize) {
        let leaving: Vec<_> = self.hosts[from].transmit(self.now).collect();
        for packet in leaving.into_iter().flat_map(kit::split) {
            self.totals.packets += 1;
            if self.rng.random_bool(self.network.loss) {
                self.totals.lost += 1;
                continue;
            }
            let copies = 1 + usize::from(self.rng.random_bool(self.network.repeats));
            for _ in 0..copies {
                let jitter = self.network.jitter.mul_f64(self.rng.random::<f64>());
                let arrives = self.now + self.network.delay + jitter;
                let number = self.totals.packets;
                self.wires[1 - from].send(arrives, (number, packet.clone()));
            }
        }
    }

    fn receive(&mut self, to: usize) {
        while let Some((number, packet)) = self.wires[to].arrive(self.now) {
            self.totals.overtaken += usize::from(number < self.latest[to]);
            self.latest[to] = self.latest[to].max(number);
            self.take(to, &packet);
        }
        let host = &mut self.hosts[to];
        host.run_timers(self.now);
        while host.endpoint.poll_event().is_some() {}
        for completion in host.completions() {
            assert_eq!(completion.status, Status::Success, "{completion:?}");
            assert_eq!(completion.wr_id as usize, self.completed, "{completion:?}");
            self.completed += 1;
        }
    }

    fn take(&mut self, to: usize, packet: &Transmit) {
        let (now, slot, host) = (self.now, self.slots[to], &mut self.hosts[to]);
        match &packet.body {
            TransmitBody::Segment { header, path, .. } => {
                let arrival = kit::arrival(header, *path);
                let admit = host.endpoint.on_arrival(now, slot, &arrival, &self.board);
                let Admit::Take(landing) = admit else { return };
                let is_put = to == 1;
                if is_put && !self.is_hasty {
                    self.board.place(&landing);
                }
                host.endpoint.placed(now, slot, &self.board);
                if is_put && self.is_hasty {
                    self.board.place(&landing);
                }
            }
            TransmitBody::Ack(ack) => host.on_ack(now, slot, ack),
            TransmitBody::Control(control) => {
                host.on_control(now, slot, control, packet.egress);
            }
            // No controller here gives credit.
            TransmitBody::Credit(_) | TransmitBody::Probe(_) => {}
        }
    }
}

fn pick<T: Copy>(rng: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}

/// Puts of all lengths; signals behind some of them, several in a row, and gets between them.
fn plan(rng: &mut Pcg64Mcg) -> Vec<Op> {
    let signals = pick(rng, &[0.1, 0.3, 0.6]);
    let gets = pick(rng, &[0.0, 0.0, 0.1]);
    let longest = pick(rng, &[8, 300, 5_000, 40_000]).min(ROOM as u32);
    let count = rng.random_range(2..40);
    let mut plan: Vec<Op> = (0..count)
        .map(|_| {
            if rng.random_bool(signals) {
                Op::Signal
            } else if rng.random_bool(gets) {
                Op::Get(rng.random_range(1..=longest))
            } else {
                Op::Put(rng.random_range(0..=longest))
            }
        })
        .collect();
    plan.push(Op::Signal);
    plan
}
