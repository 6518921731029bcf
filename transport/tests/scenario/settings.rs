//! The settings of a scenario, which its seed decides.

use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedRate, FixedWindow, controller_examples};
use braid_keys::Session;
use braid_lb::LbPolicy;
use braid_transport::{DirectConfig, EndpointConfig, LossRecovery, QpConfig};
use braid_wire::{Crc, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::network::{Dead, Faults};
use super::rails::RailSettings;
use super::route::Route;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) qps: usize,
    pub(crate) domains: u32,
    pub(crate) mtu: u16,
    pub(crate) crc: Crc,
    pub(crate) policy: LbPolicy,
    pub(crate) paths: usize,
    pub(crate) endpoint: EndpointConfig,
    pub(crate) qp: [QpConfig; 2],
    pub(crate) faults: Faults,
    pub(crate) route: Route,
    pub(crate) rails: RailSettings,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// Difference between the slowest path and the fastest.
    pub(crate) skew: Duration,
    /// The longest time for which a host does not run.
    pub(crate) pause: Duration,
    /// Work requests per send queue, at most.
    pub(crate) depth: usize,
    /// Payload bytes of a queue pair per direction, about.
    pub(crate) bytes: u64,
    /// Longest wait before a receive is posted.
    pub(crate) recv_lag: Duration,
    pub(crate) drains: bool,
    /// The applications leave queue pairs that have failed as they are.
    pub(crate) lazy: bool,
    /// Packets that a driver sends before it looks at what has come.
    pub(crate) at_once: usize,
    /// Packets that a driver takes in as one run, at most.
    pub(crate) longest_run: usize,
    /// NIC queue pairs take what was sent to them after they were closed: for a test that must
    /// fail.
    pub(crate) leaks: bool,
    /// Packets from before PSNs have wrapped come again, and messages are long.
    pub(crate) wraps: bool,
    /// Applications change memory that is being sent or read.
    pub(crate) changes: bool,
    /// Connections are keyed.
    pub(crate) keyed: bool,
    /// The network loses nothing, and no path reorders.
    pub(crate) is_faithful: bool,
    /// Only host 0 has anything to send, and part of the way back is dead.
    pub(crate) is_one_way: bool,
    /// Places in the shared receive queue of each host; `None`: every queue pair has receives of
    /// its own.
    pub(crate) shared_receives: Option<usize>,
}

pub(crate) fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// One of several.
pub(crate) fn pick<T: Copy>(rng: &mut Pcg64Mcg, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

impl Settings {
    /// Seeds in a row go through all pairs of path policy and loss recovery.
    pub(crate) fn random(rng: &mut Pcg64Mcg, seed: u64) -> Self {
        let pairs: Vec<_> = LbPolicy::ALL
            .into_iter()
            .flat_map(|policy| LossRecovery::all().map(move |recovery| (policy, recovery)))
            .collect();
        let (policy, recovery) = pairs[seed as usize % pairs.len()];
        let mtu = match rng.random_range(0..4) {
            0 => pick(rng, &[64, 128, 256, 512, 1024, 2048, 4096]),
            1 => rng.random_range(64..=256),
            _ => rng.random_range(64..=4096),
        };
        let qps = pick(rng, &[1, 1, 2, 3, 4]);
        let mut settings = Settings {
            qps,
            domains: rng.random_range(1..=2),
            mtu,
            crc: if rng.random_bool(0.75) { Crc::On } else { Crc::Off },
            policy,
            paths: pick(rng, &[1, 2, 16, 64]),
            endpoint: EndpointConfig {
                direct: direct(seed, mtu),
                skip_key: skip_key(seed),
                transmit_segments: [1, 2, 16][(seed / 3 % 3) as usize],
                ..endpoint(rng, mtu)
            },
            qp: [0, 1].map(|host| from_the_table(queue_pair(rng, mtu, recovery), seed, host)),
            faults: faults(rng),
            route: Route::default(),
            rails: RailSettings::default(),
            delay: micros(pick(rng, &[1, 5, 20, 100])),
            jitter: micros(pick(rng, &[0, 1, 10, 200])),
            skew: micros(pick(rng, &[0, 0, 20, 2_000])),
            pause: micros(pick(rng, &[0, 50, 1_000, 50_000, 400_000])),
            depth: pick(rng, &[3, 10, 30, 60]),
            bytes: u64::from(mtu) * pick(rng, &[20, 100, 300]) / qps as u64,
            recv_lag: micros(pick(rng, &[0, 0, 100, 3_000, 30_000])),
            drains: rng.random_bool(0.3),
            lazy: rng.random_bool(0.3),
            at_once: at_once(seed),
            longest_run: [1, 2, 5, usize::MAX, usize::MAX, usize::MAX][(seed % 6) as usize],
            leaks: false,
            wraps: false,
            changes: false,
            keyed: false,
            is_faithful: false,
            is_one_way: false,
            shared_receives: None,
        };
        if seed % 6 == 5 {
            settings.arrive_together();
        }
        settings
    }

    /// Packets of a batch arrive at the same time, as one run.
    fn arrive_together(&mut self) {
        (self.jitter, self.skew) = (Duration::ZERO, Duration::ZERO);
        (self.endpoint.batch_segments, self.endpoint.batch_bytes) = (16, u64::MAX);
    }

    /// Streams of tens of thousands of packets, fast enough that none of them outlives the longest
    /// life of a packet.
    pub(crate) fn wrap(&mut self) {
        (self.wraps, self.qps, self.mtu) = (true, 1, 16);
        self.depth = 50;
        (self.delay, self.jitter, self.skew) = (micros(20), Duration::ZERO, Duration::ZERO);
        self.endpoint.direct = None;
        self.endpoint.peer_receive_buffer = u64::MAX;
        for qp in &mut self.qp {
            let (pd, max_send_wr, max_recv_wr) = (qp.pd, qp.max_send_wr, qp.max_recv_wr);
            let retry_timeout = qp.retry_timeout;
            *qp = QpConfig { pd, max_send_wr, max_recv_wr, retry_timeout, ..QpConfig::default() };
        }
        let calm_at = self.faults.calm_at;
        self.faults = Faults { loss: [0.0005; 2], duplicate: 0.001, calm_at, ..Faults::NONE };
    }

    /// Envelopes around all packets, and so many packets that keys change. Where paths die, all do,
    /// so that more packets are lost in a row than several keys last for.
    pub(crate) fn seal(&mut self) {
        (self.keyed, self.crc, self.endpoint.direct) = (true, Crc::Off, None);
        self.faults.dead = Dead { of: 1, residue: 0, ..self.faults.dead };
        self.endpoint.envelope = Session::OVERHEAD as u16;
        self.bytes = self.bytes.max(u64::from(self.mtu) * 600 / self.qps as u64);
    }

    /// Nothing is lost, and nothing overtakes anything on its path. Hosts still pause until the
    /// calm.
    pub(crate) fn keep_faith(&mut self) {
        let Faults { calm_at, mark, .. } = self.faults;
        self.faults = Faults { calm_at, mark, ..Faults::NONE };
        (self.is_faithful, self.jitter) = (true, Duration::ZERO);
        // A segment that comes more than a window late is no duplicate to its receiver.
        self.qp.iter_mut().for_each(|qp| qp.window = qp.window.max(300));
        // A NIC drops what is for a queue pair that was closed.
        self.endpoint.direct = None;
    }

    /// Only host 0 sends messages. Of what host 1 sends, one rail or every second path loses all,
    /// from some time on.
    pub(crate) fn go_one_way(&mut self) {
        self.is_one_way = true;
        let Faults { loss, calm_at, dead, .. } = self.faults;
        let until = Time::FAR_FUTURE;
        let dead =
            Dead { of: 2, residue: dead.residue % 2, from: dead.from, until, hosts: [false, true] };
        let is_alone = self.rails.further.is_empty();
        let dead = if is_alone && self.paths > 1 { dead } else { Dead::NONE };
        self.faults =
            Faults { loss: loss.map(|loss| loss.min(0.01)), calm_at, dead, ..Faults::NONE };
        self.rails.lose_way_back();
        self.qp.iter_mut().for_each(|qp| qp.retry_timeout = Duration::from_secs(3));
    }

    /// No time-out is shorter than a round trip: it would declare lost what is under way.
    pub(crate) fn wait_for_round_trips(&mut self) {
        let round_trip = 2 * self.longest_way() + micros(1_000);
        for qp in &mut self.qp {
            qp.min_rto = qp.min_rto.max(round_trip);
            qp.max_rto = qp.max_rto.max(2 * round_trip);
        }
    }

    /// In three of eight scenarios all queue pairs of a host take their receives from one queue,
    /// often a short one. Not drawn from the others' source, so that seeds mean what they always
    /// did.
    pub(crate) fn share_receives(&mut self, seed: u64) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7372_7100);
        if rng.random_bool(0.375) {
            self.shared_receives = Some(pick(&mut rng, &[1, 2, 3, 8, 64]));
            self.qp.iter_mut().for_each(|qp| qp.max_recv_wr = 512);
        }
    }

    /// Makes a network without losses whose paths reorder packets, by up to many times the delay.
    /// Streams are long enough to learn that, and hosts do not pause.
    pub(crate) fn reorder(&mut self, seed: u64) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7265_6F72);
        self.faults = Faults::NONE;
        (self.jitter, self.skew) = (micros(pick(&mut rng, &[200, 2_000, 10_000])), Duration::ZERO);
        (self.pause, self.recv_lag, self.at_once) = (Duration::ZERO, Duration::ZERO, usize::MAX);
        (self.mtu, self.depth) = (self.mtu.min(256), 60);
        self.bytes = u64::from(self.mtu) * 6_000 / self.qps as u64;
        self.paths = self.paths.min(16);
        for qp in &mut self.qp {
            qp.recovery = LossRecovery::FifoPath;
            qp.window = 32;
            (qp.min_rto, qp.max_rto) = (micros(4_000), micros(100_000));
            qp.cc = pick(&mut rng, &["cubic", "fixed", "swift", "mcc"]).parse().expect("a name");
        }
    }

    /// Returns the longest delay of a packet without a fault.
    pub(crate) fn longest_way(&self) -> Duration {
        self.delay + self.rails.longest_delay() + self.skew + self.jitter
    }

    /// Whether an acknowledgement may overtake an earlier one, because paths differ in delay.
    pub(crate) fn has_uneven_paths(&self) -> bool {
        !self.rails.further.is_empty() || !self.skew.is_zero()
    }

    /// Extends the faults until the hosts may have found the path MTU, and all retry limits beyond
    /// that.
    pub(crate) fn over(&mut self, route: Route) {
        self.search_until(route.settled_at());
        self.route = route;
    }

    /// The same with several rails, each of which has a route of its own.
    pub(crate) fn over_rails(&mut self, rails: RailSettings) {
        for rail in rails.further.iter().filter(|rail| !rail.route.is_open()) {
            self.search_until(rail.route.settled_at());
        }
        self.rails = rails;
    }

    fn search_until(&mut self, settled_at: Time) {
        self.endpoint.search_path_mtu = true;
        self.qp.iter_mut().for_each(|qp| qp.max_rto = qp.max_rto.max(micros(20_000)));
        self.faults.calm_at = self.faults.calm_at.max(settled_at);
    }
}

/// Half of the scenarios, in segments as long as others or longer, and shorter on trial. Not drawn
/// from the others' source, so that seeds mean what they always did.
fn direct(seed: u64, mtu: u16) -> Option<DirectConfig> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x626C_696E);
    rng.random_bool(0.5).then(|| DirectConfig {
        long: mtu * pick(&mut rng, &[1, 1, 3, 4]),
        short: mtu / pick(&mut rng, &[1, 1, 2, 3]),
        hold_down: micros(pick(&mut rng, &[100, 5_000, 200_000])),
    })
}

/// Most of the scenarios, likewise.
fn skip_key(seed: u64) -> Option<[u8; 16]> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7769_7468);
    rng.random_bool(0.75).then(|| rng.random())
}

fn faults(rng: &mut Pcg64Mcg) -> Faults {
    if rng.random_bool(0.1) {
        return Faults::NONE;
    }
    let mut rate = |of: &[f64]| pick(rng, of);
    Faults {
        loss: [rate(&[0.0, 0.01, 0.1, 0.3]), rate(&[0.0, 0.01, 0.1, 0.3])],
        duplicate: rate(&[0.0, 0.02, 0.3]),
        corrupt: rate(&[0.0, 0.01, 0.1]),
        forge: rate(&[0.0, 0.0, 0.05]),
        late: rate(&[0.0, 0.01, 0.1]),
        mark: rate(&[0.0, 0.1]),
        late_up_to: micros(pick(rng, &[100, 5_000, 80_000])),
        dead: dead(rng),
        calm_at: Time::ZERO + micros(rng.random_range(1_000..2_000_000)),
    }
}

/// Now and then some of the paths die for a while, or all of them.
fn dead(rng: &mut Pcg64Mcg) -> Dead {
    if rng.random_bool(0.6) {
        return Dead::NONE;
    }
    let of = pick(rng, &[1, 2, 4]);
    let from = Time::ZERO + micros(rng.random_range(0..20_000));
    let until = from + micros(pick(rng, &[1_000, 30_000, 500_000]));
    Dead { of, residue: rng.random_range(0..of), from, until, hosts: [true; 2] }
}

/// Now and then a driver breaks off after so many packets, in the middle of a batch, and looks at
/// what has come.
fn at_once(seed: u64) -> usize {
    match seed % 5 {
        3 => [1, 3, 20][(seed / 5 % 3) as usize],
        _ => usize::MAX,
    }
}

fn endpoint(rng: &mut Pcg64Mcg, mtu: u16) -> EndpointConfig {
    EndpointConfig {
        search_path_mtu: false,
        envelope: 0,
        batch_segments: pick(rng, &[1, 1, 2, 4, 16]),
        quantum: pick(rng, &[None, None, Some(1), Some(3), Some(40)]),
        transmit_segments: 1,
        batch_bytes: pick(rng, &[u64::MAX, 3 * u64::from(mtu) + 200, 10_000, 1]),
        peer_receive_buffer: match rng.random_range(0..3) {
            0 => u64::from(mtu) * rng.random_range(1..=16),
            _ => u64::MAX,
        },
        ping_interval: Duration::from_millis(500),
        // Bad luck alone must not kill a peer that is there.
        peer_timeout: Duration::from_secs(30),
        direct: None,
        skip_key: None,
        joint_batches: mtu.is_multiple_of(2),
        validate_ecn: true,
    }
}

fn queue_pair(rng: &mut Pcg64Mcg, mtu: u16, recovery: LossRecovery) -> QpConfig {
    let max_rto = micros(pick(rng, &[5_000, 20_000, 100_000]));
    QpConfig {
        max_send_wr: pick(rng, &[1, 2, 8, 64, 128]),
        max_recv_wr: pick(rng, &[1, 2, 8, 64, 512]),
        window: pick(rng, &[1, 2, 5, 16, 64, 65, 300, 4096]),
        max_rd_atomic: pick(rng, &[1, 2, 4, 16]),
        // Bad luck alone must not end a work request either.
        retry_timeout: Duration::from_secs(30),
        rnr_retry: None,
        rnr_delay: micros(pick(rng, &[10, 100, 2_000])),
        min_rto: micros(pick(rng, &[200, 1_000, 4_000])),
        max_rto,
        recovery,
        reorder_threshold: pick(rng, &[1, 3, 16, 48, 200]),
        ask_every: pick(rng, &[1, 3, 32, 32]),
        cc: congestion_control(rng, mtu),
        ..QpConfig::default()
    }
}

/// Gives one host in eight a controller of the table, by its name. Not drawn from the others'
/// source, so that seeds mean what they always did.
fn from_the_table(config: QpConfig, seed: u64, host: u64) -> QpConfig {
    let mut rng = Pcg64Mcg::seed_from_u64((seed << 1 | host) ^ 0x6363_0000);
    if !rng.random_bool(0.125) {
        return config;
    }
    let examples: Vec<_> = controller_examples().collect();
    let cc = pick(&mut rng, &examples).parse().expect("an example of the table");
    QpConfig { cc, ..config }
}

fn congestion_control(rng: &mut Pcg64Mcg, mtu: u16) -> CcConfig {
    let window = match rng.random_range(0..4) {
        0 => rng.random_range(1..=u64::from(mtu)),
        1 => u64::from(mtu) * rng.random_range(1..=8),
        _ => 2 << 20,
    };
    let bits_per_second = pick(rng, &[30_000_000, 1_000_000_000, 25_000_000_000, 800_000_000_000]);
    match rng.random_range(0..5) {
        0 => CcConfig::new(FixedRate { bits_per_second, window }),
        1 => CcConfig::new(DcqcnConfig {
            window,
            cut_on_loss: rng.random_bool(0.5),
            ..DcqcnConfig::new(bits_per_second)
        }),
        _ => CcConfig::new(FixedWindow { window }),
    }
}
