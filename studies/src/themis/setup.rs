//! The common set-up of both figures: RNICs with NIC-SR and DCQCN on a leaf-spine fabric.

use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedRate};
use braid_lb::LbPolicy;
use braid_transport::LossRecovery;

use crate::shipped::Product;
use braid_sim::fabric::{Buffer, Marking, NetworkConfig, Pause, When};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths, Recovery};
use braid_sim::simulation::Plan;
use braid_sim::switch::{Policy, ThemisMemory};
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::LeafSpine;
use braid_sim::workload::Workload;

/// Default payload of a full packet, which the paper does not give.
pub(super) const PAYLOAD: u16 = 4096;
/// Headers of a data frame, as in the other studies.
const HEADER: u32 = 62;
const ACK: u32 = 64;
/// Delay of every link (Themis, section 5).
pub(super) const DELAY: Ps = Ps::from_micros(1);
/// Buffer of a switch (Themis, section 5).
const SWITCH_BUFFER: u64 = 64_000_000;
/// Pause frames by the dynamic threshold of the shared buffer alone.
const PAUSE: Pause = Pause { stop: u64::MAX, go: u64::MAX };
/// Kmin and Kmax per Gb/s of a link: 1.6 MB and 6.4 MB at 400 Gb/s.
const MARKING_PER_GBPS: (u64, u64) = (4_000, 16_000);
const MARKING_MOST: f64 = 0.2;
/// DCQCN has no window; this value exceeds all buffers here.
const NO_WINDOW: u64 = 1 << 30;
/// Age of adaptive routing's readings, and its bins as shares of a port's part of the buffer.
const ADAPTIVE_AGE: Ps = Ps(100_000);

/// The compared schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThemisScheme {
    /// One path per flow.
    Ecmp,
    /// A random uplink for every packet.
    Random,
    /// The uplink with the shortest queue.
    Shortest,
    /// Quantised adaptive routing.
    Adaptive,
    /// Themis as in the paper.
    Themis,
    /// Themis that checks its ring before an expected packet counts as missing.
    ThemisLooksBack,
    /// Themis as in the paper, but without sending blocked NACKs later.
    ThemisUncompensated,
    /// Themis-S only: spraying by PSN, without blocking NACKs.
    PsnSpraying,
    /// A random uplink for every packet, under RNICs of the previous generation: go-back-N.
    RandomGoBackN,
}

impl ThemisScheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            ThemisScheme::Ecmp => "ECMP",
            ThemisScheme::Random => "random spraying",
            ThemisScheme::Adaptive => "adaptive routing",
            ThemisScheme::Shortest => "shortest queue",
            ThemisScheme::Themis => "Themis",
            ThemisScheme::ThemisLooksBack => "Themis, looks back",
            ThemisScheme::ThemisUncompensated => "Themis, no compensation",
            ThemisScheme::PsnSpraying => "Themis-S alone",
            ThemisScheme::RandomGoBackN => "random spraying, go-back-N",
        }
    }
}

/// DCQCN's timers in microseconds, in the paper's notation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timers {
    /// Time between two increases: T_I.
    pub(super) increase_us: u64,
    /// Time between two cuts: T_D.
    pub(super) cut_us: u64,
}

impl Timers {
    /// The timers that the paper recommends.
    pub(super) const RECOMMENDED: Timers = Timers { increase_us: 900, cut_us: 4 };
    /// The other end of the grid: rare cuts, fast recovery.
    pub(super) const EAGER: Timers = Timers { increase_us: 10, cut_us: 200 };

    /// Returns the grid, the recommended timers first. The labels of figure 5 are unreadable, so
    /// these values are ours.
    pub(super) fn grid() -> Vec<Timers> {
        let (increases, cuts) = ([900, 300, 55, 10], [4, 50, 200]);
        let all = increases.into_iter().flat_map(|i| cuts.map(|c| (i, c)));
        all.map(|(increase_us, cut_us)| Timers { increase_us, cut_us }).collect()
    }

    /// Formats T_I/T_D.
    pub(super) fn name(self) -> String {
        format!("{}/{}", self.increase_us, self.cut_us)
    }
}

/// The rate control of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThemisControl {
    /// DCQCN; NACKs cut the rate.
    Dcqcn(Timers),
    /// A constant percentage of the link's rate.
    Constant(u64),
}

/// The parameters of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ThemisSetup {
    pub(super) scheme: ThemisScheme,
    pub(super) control: ThemisControl,
    pub(super) rate: Rate,
    /// Payload bytes of a full packet.
    pub(super) payload: u16,
    pub(super) product: Product,
    pub(super) seed: u64,
}

impl ThemisSetup {
    /// Returns the paper's hosts at a link rate.
    pub(super) fn new(
        scheme: ThemisScheme,
        control: ThemisControl,
        rate: Rate,
        seed: u64,
    ) -> ThemisSetup {
        let (payload, product) = (PAYLOAD, Product::Paper);
        ThemisSetup { scheme, control, rate, payload, product, seed }
    }

    pub(super) fn plan(self, fabric: &LeafSpine, workload: Workload) -> Plan {
        let topology = fabric.build().expect("the paper's fabric can be built");
        Plan {
            topology,
            network: self.network(),
            host: self.product.hosts(self.host()),
            workload,
            changes: Vec::new(),
            seed: self.seed,
            limit: Ps::from_micros(10_000_000),
        }
    }

    /// Returns the bytes of a full packet.
    pub(super) fn packet(self) -> u32 {
        u32::from(self.payload) + HEADER
    }

    fn network(self) -> NetworkConfig {
        let gbps = self.rate.bps() / 1_000_000_000;
        let (low, high) = (MARKING_PER_GBPS.0 * gbps, MARKING_PER_GBPS.1 * gbps);
        let frames = Frames { payload: self.payload, header: HEADER, ack: ACK, gap: 0 };
        let buffer = Buffer::Shared { bytes: SWITCH_BUFFER, alpha: 1.0 };
        NetworkConfig {
            marking: Some(Marking { low, high, most: MARKING_MOST, when: When::Leaving, of: None }),
            pause: Some(PAUSE),
            ..NetworkConfig::plain(frames, buffer, self.policy())
        }
    }

    fn policy(self) -> Policy {
        let memory = ThemisMemory {
            bandwidth: self.rate,
            mtu: self.packet().into(),
            ..ThemisMemory::EXAMPLE
        };
        let ring = memory.ring_entries() as u32;
        match self.scheme {
            ThemisScheme::Ecmp => Policy::Ecmp,
            ThemisScheme::Random | ThemisScheme::RandomGoBackN => Policy::Random,
            ThemisScheme::Shortest => Policy::Shortest,
            ThemisScheme::Adaptive => {
                let share = |percent: u64| SWITCH_BUFFER / 32 / 100 * percent;
                Policy::Adaptive { bins: [5, 10, 20].map(share).to_vec(), age: ADAPTIVE_AGE }
            }
            ThemisScheme::Themis => Policy::Themis { ring, look_back: false, compensate: true },
            ThemisScheme::ThemisLooksBack => {
                Policy::Themis { ring, look_back: true, compensate: true }
            }
            ThemisScheme::ThemisUncompensated => {
                Policy::Themis { ring, look_back: false, compensate: false }
            }
            ThemisScheme::PsnSpraying => Policy::Source,
        }
    }

    fn host(self) -> HostConfig {
        let (lb, paths) = match self.scheme {
            ThemisScheme::PsnSpraying => (LbPolicy::PSN, Paths::Source),
            ThemisScheme::Ecmp
            | ThemisScheme::Random
            | ThemisScheme::RandomGoBackN
            | ThemisScheme::Shortest
            | ThemisScheme::Adaptive
            | ThemisScheme::Themis
            | ThemisScheme::ThemisLooksBack
            | ThemisScheme::ThemisUncompensated => (LbPolicy::ECMP, Paths::Hashed(256)),
        };
        HostConfig {
            lb,
            paths,
            health: false,
            recovery: Recovery::Protocol(match self.scheme {
                ThemisScheme::RandomGoBackN => LossRecovery::GoBackN,
                _ => LossRecovery::NicSr,
            }),
            cc: self.congestion_control(),
            min_rto: Duration::from_millis(1),
            ..HostConfig::default()
        }
    }

    fn congestion_control(self) -> CcConfig {
        match self.control {
            ThemisControl::Dcqcn(timers) => CcConfig::new(DcqcnConfig {
                window: NO_WINDOW,
                cut_interval: Duration::from_micros(timers.cut_us),
                increase_interval: Duration::from_micros(timers.increase_us),
                cut_on_loss: true,
                ..DcqcnConfig::new(self.rate.bps())
            }),
            ThemisControl::Constant(percent) => CcConfig::new(FixedRate {
                bits_per_second: self.rate.bps() / 100 * percent,
                window: NO_WINDOW,
            }),
        }
    }
}
