//! How the hosts of a run behave.

use std::time::Duration;

use braid_cc::{CcConfig, FixedWindow};
use braid_lb::{LbPolicy, RailScheme};
use braid_transport::LossRecovery;

use super::data_path::DataPath;
use super::nvlink::NvLink;

/// What a path's number means to the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paths {
    /// Paths are real ones, as many as there are between two edge switches, and switches route by them.
    Source,
    /// So many source ports, which switches hash.
    Hashed(u16),
}

/// Which queue pairs of an interface share a path set, and so the policy's turn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sharing {
    /// Those to the same edge switch, as PRO wants it.
    #[default]
    Edge,
    /// All that leave their edge switch, wherever they go.
    Interface,
    /// None: each has its own.
    Nothing,
}

/// How losses are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// By the protocol.
    Protocol(LossRecovery),
    /// At once, by nobody: each lost packet is replaced by one more, as a rateless erasure code without overhead
    /// would do. Only the number of bytes counts.
    Ideal,
}

/// How the hosts of a run behave.
#[derive(Clone, PartialEq, Debug)]
pub struct HostConfig {
    /// The path policy.
    pub lb: LbPolicy,
    /// Which interfaces a queue pair uses.
    pub data_path: DataPath,
    /// Which of them each chunk takes, where there are several.
    pub rail_scheme: RailScheme,
    /// Where there are several: an interface that has so many bytes of data waiting for its link is given no further ones.
    pub send_queue: u64,
    /// The links between the GPUs of a host; `None`: without limit.
    pub nvlink: Option<NvLink>,
    /// What paths are.
    pub paths: Paths,
    /// Who shares them.
    pub sharing: Sharing,
    /// Whether dead paths are taken out of use.
    pub health: bool,
    /// How losses are found.
    pub recovery: Recovery,
    /// Packets sent later that must have arrived, for `sack`.
    pub reorder_threshold: u32,
    /// How much may be under way.
    pub cc: CcConfig,
    /// The part of its link's rate that an interface uses for data at most, 0 to 1.
    pub share: f64,
    /// Packets per acknowledgement.
    pub ack_every: u32,
    /// Shortest retransmission time-out.
    pub min_rto: Duration,
    /// Longest.
    pub max_rto: Duration,
    /// How long a queue pair tries without any progress before it gives up.
    pub retry_timeout: Duration,
    /// Packets beyond the ePSN that a receiver tracks, at most 4096.
    pub window: u16,
    /// First transmissions are written where they go before they are checked, as an RNIC does; none may
    /// arrive so after its message was completed.
    pub direct: bool,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            lb: LbPolicy::default(),
            data_path: DataPath::Own,
            rail_scheme: RailScheme::default(),
            send_queue: 256 << 10,
            nvlink: None,
            paths: Paths::Source,
            sharing: Sharing::Edge,
            health: true,
            recovery: Recovery::Protocol(LossRecovery::default()),
            reorder_threshold: 48,
            cc: CcConfig::new(FixedWindow { window: 1 << 30 }),
            share: 1.0,
            ack_every: 1,
            min_rto: Duration::from_micros(80),
            max_rto: Duration::from_millis(10),
            retry_timeout: Duration::from_secs(3),
            window: 4096,
            direct: false,
        }
    }
}
