//! Models: set-ups of papers and of another simulator that scenarios start from.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedWindow};
use braid_lb::LbPolicy;
use braid_transport::LossRecovery;

use super::network::Network;
use super::quantity::{Text, by_name};
use crate::fabric::{Buffer, Marking, Pause, When};
use crate::frames::Frames;
use crate::host::{HostConfig, Paths, Recovery};
use crate::time::{Ps, Rate};
use crate::topology::{FatTree, LeafSpine, Topology, TopologyError};

/// A set-up whose values a scenario keeps unless it changes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// The evaluation of OFAN: 800 Gb/s, deep queues, ideal erasure coding, so that only load
    /// balancing matters.
    #[default]
    Ofan,
    /// The evaluation of PRO: 200 Gb/s, DCQCN, pause frames, Algorithm 2, source routing.
    Pro,
    /// The set-up of a second simulator (htsim's `uec`), for comparing connection matrices:
    /// trimming, control first, a constant window.
    Uec,
}

/// The names of the models, with a description.
pub const MODELS: &[(&str, &str, Model)] = &[
    (
        "ofan",
        "OFAN's evaluation: 800 Gb/s, ideal recovery, switches rotate by destination",
        Model::Ofan,
    ),
    ("pro", "PRO's evaluation: 200 Gb/s, DCQCN, pause frames, source routing", Model::Pro),
    ("uec", "htsim's uec set-up: 800 Gb/s, trimming, control first, constant window", Model::Uec),
];

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known: Vec<(&str, Model)> = MODELS.iter().map(|(name, _, is)| (*name, *is)).collect();
        by_name("model", text, &known)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = MODELS.iter().find(|(.., model)| model == self);
        f.pad(known.expect("every model has a name").0)
    }
}

impl Text for Model {
    const WHAT: &'static str = "model";
    const EXAMPLE: &'static str = "ofan";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl Model {
    /// Returns speed and delay of the links.
    pub(super) fn links(self) -> (Rate, Ps) {
        match self {
            Model::Ofan | Model::Uec => (Rate::from_gbps(800), Ps::from_nanos(500)),
            Model::Pro => (Rate::from_gbps(200), Ps::from_micros(1)),
        }
    }

    /// Returns the fabric of the evaluation, with 128 hosts.
    pub(super) fn topology(self) -> Result<Topology, TopologyError> {
        let (rate, delay) = self.links();
        match self {
            Model::Ofan | Model::Uec => FatTree::k_ary(8, rate, delay)?.build(),
            Model::Pro => {
                let plan = LeafSpine {
                    leaves: 16,
                    hosts_per_leaf: 8,
                    spines: 8,
                    links_per_spine: 1,
                    host_rate: rate,
                    fabric_rate: rate,
                    delay,
                };
                plan.build()
            }
        }
    }

    pub(super) fn network(self) -> Network {
        match self {
            Model::Ofan => Network {
                frames: Frames { payload: 4096, header: 62, ack: 64, gap: 20 },
                buffer: Buffer::PerPort { bytes: 800_000 },
                // OFAN gives REPS a threshold of 10 % of the buffer, and PLB 50 %.
                marking: threshold(80_000),
                pause: None,
                control_first: false,
                trim: false,
                switch: policy("ofan"),
                control_hashed: false,
            },
            Model::Pro => Network {
                // The paper gives no packet size, so this is our choice.
                frames: Frames { payload: 1000, header: 62, ack: 64, gap: 20 },
                buffer: Buffer::Shared { bytes: 100_000_000, alpha: 1.0 },
                marking: Some(Marking {
                    low: 100_000,
                    high: 400_000,
                    most: 0.2,
                    when: When::Joining,
                    of: None,
                }),
                // The paper gives no pause threshold either. This one is far from the threshold of
                // drops.
                pause: Some(Pause { stop: 1_000_000, go: 900_000 }),
                control_first: true,
                trim: false,
                switch: policy("pro"),
                control_hashed: false,
            },
            Model::Uec => Network {
                frames: Frames { payload: 4096, header: 64, ack: 64, gap: 0 },
                buffer: Buffer::PerPort { bytes: 192 * 4160 },
                marking: Some(Marking {
                    low: 19 * 4160,
                    high: 20 * 4160,
                    most: 1.0,
                    when: When::Leaving,
                    of: None,
                }),
                pause: None,
                control_first: true,
                trim: true,
                switch: policy("ecmp"),
                control_hashed: true,
            },
        }
    }

    pub(super) fn host(self) -> HostConfig {
        match self {
            Model::Ofan => HostConfig {
                lb: LbPolicy::ECMP,
                paths: Paths::Hashed(256),
                health: false,
                recovery: Recovery::Ideal,
                min_rto: Duration::from_millis(10),
                max_rto: Duration::from_secs(1),
                retry_timeout: Duration::from_secs(30),
                ..HostConfig::default()
            },
            Model::Pro => HostConfig {
                lb: LbPolicy::PRO,
                health: false,
                recovery: Recovery::Protocol(LossRecovery::OooWindow),
                cc: CcConfig::new(DcqcnConfig::new(200_000_000_000)),
                ..HostConfig::default()
            },
            Model::Uec => HostConfig {
                // htsim's "oblivious" policy cycles through a shuffled set of entropies. Switches
                // that hash with salts of their own make any order of them as good as a shuffled
                // one.
                lb: LbPolicy::ROUND_ROBIN,
                paths: Paths::Hashed(256),
                health: false,
                recovery: Recovery::Protocol(LossRecovery::Sack),
                reorder_threshold: 4000,
                cc: CcConfig::new(FixedWindow { window: 4096 * 4160 }),
                // Losses come back as trimmed headers. The time-out is for those that do not.
                min_rto: Duration::from_millis(1),
                ..HostConfig::default()
            },
        }
    }
}

fn threshold(bytes: u64) -> Option<Marking> {
    Some(Marking { low: bytes, high: bytes, most: 1.0, when: When::Leaving, of: None })
}

fn policy(name: &str) -> super::SwitchPolicy {
    name.parse().expect("a listed name")
}
