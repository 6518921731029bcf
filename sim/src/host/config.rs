//! The configuration of the hosts.

use std::time::Duration;

use braid_cc::{CcConfig, FixedWindow};
use braid_lb::{LbPolicy, PathSet, RailScheme};
use braid_transport::{EndpointConfig, LossRecovery, QpConfig};

use super::data_path::DataPath;
use super::nvlink::NvLink;

/// The meaning of a path's number in the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paths {
    /// Paths are routes between two edge switches, numbered, and switches route by the number.
    Source,
    /// Paths are source ports, which switches hash. The value is their number.
    Hashed(u16),
}

/// The queue pairs of an interface that share a path set, and so the state of the path policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sharing {
    /// Queue pairs to the same edge switch, as in PRO.
    #[default]
    Edge,
    /// Queue pairs to the same host, or to the same group of [`HostConfig::destination_groups`].
    Host,
    /// All queue pairs that leave their edge switch, for any destination.
    Interface,
    /// No sharing: each queue pair has a path set of its own.
    Nothing,
}

/// The detection of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// By a method of the protocol.
    Protocol(LossRecovery),
    /// Ideal: each lost packet is replaced at once by another one, as a rateless erasure code
    /// without overhead would do. Only the number of bytes counts.
    Ideal,
}

/// Limits of a batch: the packets that leave together on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSize {
    /// Maximum number of packets, at least 1.
    pub packets: u32,
    /// Maximum number of bytes, headers of the protocol included. One packet always fits.
    pub bytes: u64,
}

impl BatchSize {
    /// One packet, as from an RNIC.
    pub const PACKET: BatchSize = BatchSize { packets: 1, bytes: u64::MAX };
    /// The batch of a UDP socket with segmentation offload, which the engine uses.
    pub const GSO: BatchSize =
        BatchSize { packets: EndpointConfig::GSO_SEGMENTS, bytes: EndpointConfig::GSO_BYTES };
}

/// The configuration of the hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct HostConfig {
    /// The path policy.
    pub lb: LbPolicy,
    /// The interfaces that a queue pair uses.
    pub data_path: DataPath,
    /// The policy that chooses among several interfaces for each chunk.
    pub rail_scheme: RailScheme,
    /// With several interfaces: an interface with this many bytes of data queued for its link gets
    /// no more.
    pub send_queue: u64,
    /// The links between the GPUs of a host. `None`: unlimited bandwidth.
    pub nvlink: Option<NvLink>,
    /// The meaning of a path's number.
    pub paths: Paths,
    /// The queue pairs that share a path set.
    pub sharing: Sharing,
    /// Groups of hosts that share a path set as destinations, with [`Sharing::Host`]. A host is in
    /// one group at most.
    pub destination_groups: Vec<Vec<u32>>,
    /// The packets that leave together on one path.
    pub batch: BatchSize,
    /// The path quantum: the packets for which a path is picked, at least 1. `None`: as
    /// [`EndpointConfig::quantum`] has it.
    pub quantum: Option<u32>,
    /// Whether dead paths are taken out of use.
    pub health: bool,
    /// The detection of losses.
    pub recovery: Recovery,
    /// Number of packets sent later that must have arrived before a packet counts as lost, for
    /// `sack`.
    pub reorder_threshold: u32,
    /// The congestion control.
    pub cc: CcConfig,
    /// The share of its link's rate that an interface uses for data, 0 to 1.
    pub share: f64,
    /// Packets per acknowledgement.
    pub ack_every: u32,
    /// The shortest retransmission time-out.
    pub min_rto: Duration,
    /// The longest retransmission time-out.
    pub max_rto: Duration,
    /// Time without progress after which a queue pair fails.
    pub retry_timeout: Duration,
    /// Number of packets beyond the ePSN that a receiver tracks, at most 4096.
    pub window: u16,
    /// Whether first transmissions are placed directly, before they are checked, as an RNIC does.
    /// No direct write may follow the completion of its message.
    pub direct: bool,
}

impl HostConfig {
    /// Returns the hosts as the engine runs them over UDP sockets, without any setting by the user.
    /// The values come from the defaults of `lb` and `transport`, which the engine uses, too.
    pub fn shipped() -> HostConfig {
        let qp = QpConfig::default();
        HostConfig {
            lb: LbPolicy::default(),
            data_path: DataPath::Aligned,
            rail_scheme: RailScheme::default(),
            paths: Paths::Hashed(PathSet::DEFAULT_PATHS as u16),
            sharing: Sharing::Host,
            batch: BatchSize::GSO,
            quantum: None,
            health: true,
            recovery: Recovery::Protocol(qp.recovery),
            reorder_threshold: qp.reorder_threshold,
            cc: qp.cc,
            ack_every: qp.ask_every,
            min_rto: qp.min_rto,
            max_rto: qp.max_rto,
            retry_timeout: qp.retry_timeout,
            window: qp.window,
            ..HostConfig::default()
        }
    }
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
            destination_groups: Vec::new(),
            batch: BatchSize::PACKET,
            quantum: Some(1),
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
