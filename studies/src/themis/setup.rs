//! What both figures have in common: RNICs with NIC-SR and DCQCN on a leaf-spine fabric.

use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedRate};
use braid_lb::LbPolicy;
use braid_transport::LossRecovery;

use braid_sim::fabric::{Buffer, Marking, NetworkConfig, Pause, When};
use braid_sim::frames::Frames;
use braid_sim::host::{HostConfig, Paths, Recovery};
use braid_sim::simulation::Plan;
use braid_sim::switch::{Policy, ThemisMemory};
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::LeafSpine;
use braid_sim::workload::Workload;

/// Payload of a full packet where nothing else is said; the paper does not say.
pub(super) const PAYLOAD: u16 = 4096;
/// Headers of a data frame, as in the other studies.
const HEADER: u32 = 62;
const ACK: u32 = 64;
/// Of every link (Themis, section 5).
pub(super) const DELAY: Ps = Ps::from_micros(1);
/// Of a switch (Themis, section 5).
const SWITCH_BUFFER: u64 = 64_000_000;
/// Links are stopped by the dynamic threshold of the shared buffer alone.
const PAUSE: Pause = Pause { stop: u64::MAX, go: u64::MAX };
/// Kmin, Kmax for each Gb/s of a link: 1.6 MB and 6.4 MB at 400 Gb/s.
const MARKING_PER_GBPS: (u64, u64) = (4_000, 16_000);
const MARKING_MOST: f64 = 0.2;
/// DCQCN has none; this is more than any buffer here.
const NO_WINDOW: u64 = 1 << 30;
/// Between two looks at the queues by adaptive routing, and its bins as shares of a port's part of the buffer.
const ADAPTIVE_AGE: Ps = Ps(100_000);

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// A flow takes one way.
    Ecmp,
    /// Any uplink, for every packet.
    Random,
    /// The uplink with the shortest queue.
    Shortest,
    /// Quantised adaptive routing.
    Adaptive,
    /// Themis as the paper has it.
    Themis,
    /// Themis that asks its ring before it takes an expected packet for missing.
    ThemisLooksBack,
    /// Themis as the paper has it, but a NACK that is blocked stays so.
    ThemisUncompensated,
    /// Themis-S alone: spraying by PSN, NACKs as they come.
    PsnSpraying,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Ecmp => "ECMP",
            Scheme::Random => "random spraying",
            Scheme::Adaptive => "adaptive routing",
            Scheme::Shortest => "shortest queue",
            Scheme::Themis => "Themis",
            Scheme::ThemisLooksBack => "Themis, looks back",
            Scheme::ThemisUncompensated => "Themis, no compensation",
            Scheme::PsnSpraying => "Themis-S alone",
        }
    }
}

/// DCQCN's timers in microseconds, as the paper writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timers {
    /// Between two increases: T_I.
    pub(super) increase_us: u64,
    /// Between two cuts: T_D.
    pub(super) cut_us: u64,
}

impl Timers {
    /// What the paper calls recommended.
    pub(super) const RECOMMENDED: Timers = Timers { increase_us: 900, cut_us: 4 };
    /// The other end of the grid: cuts seldom, recovers at once.
    pub(super) const EAGER: Timers = Timers { increase_us: 10, cut_us: 200 };

    /// The recommended ones first. The labels of figure 5 are lost, these values are ours.
    pub(super) fn grid() -> Vec<Timers> {
        let (increases, cuts) = ([900, 300, 55, 10], [4, 50, 200]);
        let all = increases.into_iter().flat_map(|i| cuts.map(|c| (i, c)));
        all.map(|(increase_us, cut_us)| Timers { increase_us, cut_us }).collect()
    }

    /// T_I/T_D.
    pub(super) fn name(self) -> String {
        format!("{}/{}", self.increase_us, self.cut_us)
    }
}

/// How fast flows send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    /// As DCQCN lets them; NACKs cut the rate.
    Dcqcn(Timers),
    /// At so many hundredths of the link's rate, whatever happens.
    Constant(u64),
}

/// One run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Setup {
    pub(super) scheme: Scheme,
    pub(super) control: Control,
    pub(super) rate: Rate,
    /// Bytes of a full packet's payload.
    pub(super) payload: u16,
    pub(super) seed: u64,
}

impl Setup {
    pub(super) fn plan(self, fabric: &LeafSpine, workload: Workload) -> Plan {
        let topology = fabric.build().expect("the paper's fabric can be built");
        Plan {
            topology,
            network: self.network(),
            host: self.host(),
            workload,
            changes: Vec::new(),
            seed: self.seed,
            limit: Ps::from_micros(10_000_000),
        }
    }

    /// Bytes of a full packet.
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
            Scheme::Ecmp => Policy::Ecmp,
            Scheme::Random => Policy::Random,
            Scheme::Shortest => Policy::Shortest,
            Scheme::Adaptive => {
                let share = |percent: u64| SWITCH_BUFFER / 32 / 100 * percent;
                Policy::Adaptive { bins: [5, 10, 20].map(share).to_vec(), age: ADAPTIVE_AGE }
            }
            Scheme::Themis => Policy::Themis { ring, look_back: false, compensate: true },
            Scheme::ThemisLooksBack => Policy::Themis { ring, look_back: true, compensate: true },
            Scheme::ThemisUncompensated => {
                Policy::Themis { ring, look_back: false, compensate: false }
            }
            Scheme::PsnSpraying => Policy::Source,
        }
    }

    fn host(self) -> HostConfig {
        let (lb, paths) = match self.scheme {
            Scheme::PsnSpraying => (LbPolicy::PSN, Paths::Source),
            Scheme::Ecmp
            | Scheme::Random
            | Scheme::Shortest
            | Scheme::Adaptive
            | Scheme::Themis
            | Scheme::ThemisLooksBack
            | Scheme::ThemisUncompensated => (LbPolicy::ECMP, Paths::Hashed(256)),
        };
        HostConfig {
            lb,
            paths,
            health: false,
            recovery: Recovery::Protocol(LossRecovery::NicSr),
            cc: self.congestion_control(),
            min_rto: Duration::from_millis(1),
            ..HostConfig::default()
        }
    }

    fn congestion_control(self) -> CcConfig {
        match self.control {
            Control::Dcqcn(timers) => CcConfig::new(DcqcnConfig {
                window: NO_WINDOW,
                cut_interval: Duration::from_micros(timers.cut_us),
                increase_interval: Duration::from_micros(timers.increase_us),
                cut_on_loss: true,
                ..DcqcnConfig::new(self.rate.bps())
            }),
            Control::Constant(percent) => CcConfig::new(FixedRate {
                bits_per_second: self.rate.bps() / 100 * percent,
                window: NO_WINDOW,
            }),
        }
    }
}
