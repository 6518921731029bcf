//! The options of the engine on the command line.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use braid::{
    CcConfig, DatapathKind, DestinationGroups, DestinationGroupsError, KeyPurpose, LbPolicy,
    LossRecovery, Medium, MetricsEndpoint, RailScheme,
};
use braid_lab::pages::named;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::quantities::local_address;

/// Options of the engine, for every test and `ceiling`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EngineArgs {
    /// UDP port of the server [default: 4791, or 18515 over verbs, where the device uses 4791]
    #[arg(short = 'p', long)]
    pub(crate) port: Option<u16>,
    /// Local address to receive on; a link-local one with its device, `fe80::1%eth0` [default: all]
    #[arg(long, aliases = ["source_ip", "bind_source_ip"], value_name = "ADDR",
        value_parser = local_address)]
    pub(crate) bind: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Datapath that carries the packets [default: udp, or verbs with `-d`]
    #[arg(long, value_parser = datapaths())]
    pub(crate) datapath: Option<DatapathKind>,
    /// Driver of the protocol: the test itself by polling, or a thread of the engine.
    #[arg(long, value_enum, default_value_t = ProgressKind::Poll)]
    pub(crate) progress: ProgressKind,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Maximum payload bytes of a packet [default: the path's maximum, up to 16384]
    #[arg(short = 'm', long, value_parser = clap::value_parser!(u16).range(64..))]
    pub(crate) mtu: Option<u16>,
    /// Whether payloads carry an end-to-end CRC [default: on, except over TCP]
    #[arg(long, value_enum)]
    pub(crate) crc: Option<Switch>,
    #[command(flatten)]
    pub(crate) protection: ProtectionArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
    /// Memory of the messages on this side: `host`, or `cuda:N` for that of a GPU, of which `cuda`
    /// is the first.
    #[arg(long, default_value_t, value_name = "host|cuda[:N]")]
    pub(crate) memory: MemoryKind,
    /// Seed of injected faults and of traffic patterns.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Endpoint for this side's metrics during the run: `local` for `braid-perf top PID`, an
    /// address for Prometheus too.
    #[arg(long, value_name = "local|ADDR")]
    pub(crate) metrics: Option<MetricsEndpoint>,
}

/// The memory of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum MemoryKind {
    #[default]
    Host,
    /// The GPU with this number.
    Cuda(u32),
}

impl FromStr for MemoryKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("cuda:").map(str::parse)) {
            ("host", _) => Ok(MemoryKind::Host),
            ("cuda", _) => Ok(MemoryKind::Cuda(0)),
            (_, Some(Ok(gpu))) => Ok(MemoryKind::Cuda(gpu)),
            _ => Err("give host, cuda or cuda:N, with the number of a GPU".to_owned()),
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryKind::Host => f.pad("host"),
            MemoryKind::Cuda(gpu) => write!(f, "cuda:{gpu}"),
        }
    }
}

/// The RDMA device that carries the packets.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceArgs {
    /// RDMA device, with its name from `rdma link`; implies `--datapath verbs`.
    #[arg(short = 'd', long, alias = "ib-dev", value_name = "DEV")]
    pub(crate) dev: Option<String>,
    /// Port of the RDMA device.
    #[arg(short = 'i', long, value_name = "PORT", default_value_t = 1, requires = "dev")]
    pub(crate) ib_port: u8,
    /// Entry of the port's GID table [default: that of `--bind`, or the first RoCE v2 entry with an
    /// IPv4 address]
    #[arg(short = 'x', long, value_name = "INDEX", requires = "dev")]
    pub(crate) gid_index: Option<u32>,
    /// Service of the NIC that carries the paths [default: UC]; over UDP only `RC`, the type of
    /// Braid's queue pairs
    #[arg(short = 'c', long, value_enum, ignore_case = true)]
    pub(crate) connection: Option<Service>,
}

/// Paths and rails, and the policies of the sender.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArgs {
    /// Paths to the peer, 1 to 4096; each is a UDP source port.
    #[arg(long, default_value_t = braid::paths::PathSet::DEFAULT_PATHS)]
    pub(crate) paths: usize,
    /// Path policy of the sender on this side.
    #[arg(long, default_value_t, value_name = "POLICY", value_parser = named::<LbPolicy>(policies))]
    pub(crate) lb: LbPolicy,
    /// Path quantum: packets that a queue pair sends on one path before it picks the next, 1 to
    /// 4096 [default: one call, at most 48 full packets; with `dr` 1]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) quantum: Option<u32>,
    /// File of the peers that share paths, such as the hosts behind one ToR switch. Each line has
    /// the name of a group and the addresses or prefixes of its hosts [default: none]
    #[arg(long, value_name = "FILE", value_parser = destination_groups)]
    pub(crate) destination_groups: Option<DestinationGroups>,
    /// Whether to discover which paths take different routes, and to use equally many of each. For
    /// networks whose switches hash.
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub(crate) discover: Switch,
    /// Congestion control of the sender on this side: `cubic`; `fixed`, with its window
    /// `fixed:512K`; `rate:10G`; `dcqcn:line=25G`; `mcc`; `bbr`. Each queue pair has its own.
    #[arg(long, default_value_t, value_name = "POLICY",
        value_parser = named::<CcConfig>(controllers))]
    pub(crate) cc: CcConfig,
    /// Method that distinguishes lost packets from late ones. The client's choice holds for both
    /// sides.
    #[arg(long, default_value_t, value_name = "METHOD",
        value_parser = named::<LossRecovery>(recoveries))]
    pub(crate) loss_recovery: LossRecovery,
    /// Local addresses, one rail each, in the order in which the other side lists its own. A
    /// connection uses as many rails as both sides have, the first with the first. The server is
    /// reached at its first. Over verbs, `-d` names the device of the first address, and the other
    /// devices are found by their addresses.
    #[arg(long, value_name = "ADDR,..", value_delimiter = ',', conflicts_with = "bind")]
    pub(crate) rails: Vec<IpAddr>,
    /// Rail policy of the sender on this side.
    #[arg(long, default_value_t, value_name = "POLICY",
        value_parser = named::<RailScheme>(rail_schemes))]
    pub(crate) rail_policy: RailScheme,
}

/// The keys that protect a connection.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProtectionArgs {
    /// Secret key that both sides share or, with --allowed-keys, the private key of this side. Only
    /// peers with the key connect, and packets are protected. `keygen` makes a key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Public keys of the allowed peers, one line each as printed by `keygen --static`:
    /// `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) allowed_keys: Option<PathBuf>,
    /// Use of the key: `off`; `auth`, packets are authenticated; `encrypt`, packets are also
    /// encrypted, and a server accepts clients without a key; `required`, it does not [default:
    /// required with --key]. A list of allowed ciphers may follow, such as
    /// `required:aes-128-gcm,chacha20-poly1305` [default: all, aes-256-gcm first]
    #[arg(long, value_name = "MODE[:CIPHER,..]")]
    pub(crate) security: Option<KeyPurpose>,
}

/// Faults injected below the protocol.
#[derive(Args, Clone, Debug)]
pub(crate) struct FaultArgs {
    /// Share of packets to drop, 0 to 1, injected below the protocol.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) drop: f64,
    /// Share of packets to delay until later packets have passed.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) reorder: f64,
    /// Share of packets to send twice.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) duplicate: f64,
    /// Share of packets to corrupt.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) corrupt: f64,
    /// Microseconds by which every packet is delayed.
    #[arg(long, default_value_t = 0, value_name = "US")]
    pub(crate) delay: u64,
}

/// The port of perftest.
const VERBS_PORT: u16 = 18515;

impl EngineArgs {
    /// Returns the UDP port of the server.
    pub(crate) fn port(&self) -> u16 {
        let is_device = self.datapath().medium() == Medium::Device;
        self.port.unwrap_or(if is_device { VERBS_PORT } else { braid::DEFAULT_PORT })
    }

    /// Returns the datapath.
    pub(crate) fn datapath(&self) -> DatapathKind {
        self.datapath.unwrap_or_else(|| {
            let implied = if self.device.dev.is_some() { Medium::Device } else { Medium::Network };
            let mut all = DatapathKind::all();
            all.find(|kind| kind.medium() == implied).expect("the table has one of each medium")
        })
    }
}

/// Returns the names of the path policies.
pub(crate) fn policies() -> Vec<String> {
    braid::paths::policy_names().map(str::to_owned).collect()
}

/// Returns the names of the congestion controls.
pub(crate) fn controllers() -> Vec<String> {
    braid::congestion::controller_names().map(str::to_owned).collect()
}

fn recoveries() -> Vec<String> {
    LossRecovery::all().map(|method| method.name().to_owned()).collect()
}

/// Returns the names of the rail policies.
pub(crate) fn rail_schemes() -> Vec<String> {
    braid::paths::rail_scheme_names().map(str::to_owned).collect()
}

/// Reads the name of a datapath of the engine's table.
fn datapaths() -> impl TypedValueParser<Value = DatapathKind> {
    let value = |kind: DatapathKind| PossibleValue::new(kind.name()).help(kind.summary());
    let names = PossibleValuesParser::new(DatapathKind::all().map(value));
    names.try_map(|name| name.parse::<DatapathKind>())
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// Unreliable connection.
    Uc,
    /// Reliable connection.
    Rc,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgressKind {
    /// The test polls.
    Poll,
    /// A thread of the engine.
    Thread,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

fn destination_groups(file: &str) -> Result<DestinationGroups, DestinationGroupsError> {
    DestinationGroups::read(file)
}
