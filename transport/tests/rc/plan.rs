//! Random scenarios: the settings of both ends and of the network, and the work requests.

use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_transport::{QpConfig, RcRemote, RoceMtu};
use braid_wire::Time;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::host::QP;
use crate::network::Faults;

/// The kind of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
    CompareSwap,
}

impl Kind {
    pub(crate) fn consumes_receive(self) -> bool {
        matches!(self, Kind::Send | Kind::SendImm | Kind::WriteImm)
    }

    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Kind::FetchAdd | Kind::CompareSwap)
    }
}

/// A work request of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) kind: Kind,
    pub(crate) len: u32,
    pub(crate) signalled: bool,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
    /// The time between the post before and this one.
    pub(crate) pause: Duration,
}

/// Everything that a seed decides.
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    pub(crate) config: QpConfig,
    /// The remote ends that the two hosts are given.
    pub(crate) remotes: [RcRemote; 2],
    /// The work requests of the two hosts.
    pub(crate) work: [Vec<Planned>; 2],
    /// Time between receives that are posted, beyond the first ones.
    pub(crate) receive_pause: Duration,
    pub(crate) first_receives: usize,
    /// Bytes of a slot of memory.
    pub(crate) slot: usize,
}

impl Plan {
    pub(crate) fn new(rng: &mut Pcg64Mcg) -> Self {
        let mtu = RoceMtu::ALL[rng.random_range(0..RoceMtu::ALL.len())];
        let share = |rng: &mut Pcg64Mcg, most: f64| match rng.random_range(0..3) {
            0 => 0.0,
            1 => most / 10.0,
            _ => most,
        };
        let cut_at = rng.random_bool(0.1).then(|| {
            let after = rng.random_range(0..3_000_000);
            Time::from_nanos(1_000_000 + after)
        });
        let faults = Faults {
            loss: share(rng, 0.1),
            duplication: share(rng, 0.2),
            damage: share(rng, 0.05),
            reordering: share(rng, 0.1),
            marks: [0.0, 0.05, 1.0][rng.random_range(0..3)],
            cut_at,
        };
        let mut psn = || match rng.random_range(0..3) {
            0 => rng.random_range(0..1 << 24),
            1 => 0xFF_FFFF - rng.random_range(0..50),
            _ => rng.random_range(0..3),
        };
        let (a, b) = (psn(), psn());
        let remote = |qp, send_psn, recv_psn, rng: &mut Pcg64Mcg| RcRemote {
            qp,
            send_psn,
            recv_psn,
            mtu,
            max_rd_atomic: 4,
            ack_timeout: Duration::from_micros(500),
            // A scenario that does not cut the network must not fail by bad luck.
            retry_count: if cut_at.is_some() { 7 } else { 200 },
            window: [1, 4, 16, 128][rng.random_range(0..4)],
            dcqcn: rng.random_bool(0.5).then(|| {
                let line = [50, 1_000, 40_000][rng.random_range(0..3)];
                ReactionPointConfig::new(line * 1_000_000)
            }),
        };
        let remotes = [remote(QP[1], a, b, rng), remote(QP[0], b, a, rng)];
        let config = QpConfig {
            max_send_wr: [4, 64][rng.random_range(0..2)],
            max_recv_wr: 128,
            max_rd_atomic: 4,
            rnr_delay: Duration::from_micros([10, 80, 480][rng.random_range(0..3)]),
            ..QpConfig::default()
        };
        let most = mtu.bytes() * 20;
        let work = [0, 1].map(|host| {
            // One end may be silent.
            let count = if host == 1 && rng.random_bool(0.4) { 0 } else { rng.random_range(1..40) };
            (0..count).map(|_| planned(rng, mtu.bytes(), most)).collect()
        });
        Plan {
            faults,
            config,
            remotes,
            work,
            receive_pause: Duration::from_micros([0, 20, 200][rng.random_range(0..3)]),
            first_receives: [0, 100][rng.random_range(0..2)],
            slot: most as usize,
        }
    }
}

fn planned(rng: &mut Pcg64Mcg, mtu: u32, most: u32) -> Planned {
    let kind = match rng.random_range(0..10) {
        0 | 1 => Kind::Send,
        2 => Kind::SendImm,
        3 | 4 => Kind::Write,
        5 => Kind::WriteImm,
        6 | 7 => Kind::Read,
        8 => Kind::FetchAdd,
        _ => Kind::CompareSwap,
    };
    let len = match rng.random_range(0..6) {
        _ if kind.is_atomic() => 8,
        0 => 0,
        1 => rng.random_range(1..64),
        2 => mtu * rng.random_range(1..4),
        3 => rng.random_range(0..=most),
        _ => rng.random_range(0..3 * mtu),
    };
    Planned {
        kind,
        len,
        signalled: rng.random_bool(0.7),
        fence: rng.random_bool(0.1),
        solicited: rng.random_bool(0.2),
        pause: Duration::from_micros([0, 0, 5, 300][rng.random_range(0..4)]),
    }
}
