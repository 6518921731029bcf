//! The options of the verbs datapath.

use std::net::IpAddr;

use braid_verbs::{PortState, VerbsError};

use super::buffers::BuffersError;

/// The service of the NIC that carries a queue pair's paths (IBTA vol. 1, 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum VerbsService {
    /// Unreliable connection. Braid sends lost packets again, on any good path.
    #[default]
    Uc,
    /// Reliable connection, for NICs without UC. The NIC sends lost packets again by itself.
    Rc,
}

/// An RDMA device and its options.
///
/// Later versions may add fields, so begin with [`VerbsOptions::new`].
///
/// ```
/// use braid::{Datapath, Engine, EngineConfig, VerbsOptions};
///
/// let datapath = Datapath::Verbs(VerbsOptions::new("rxe0"));
/// match Engine::new(EngineConfig { datapath, ..EngineConfig::default() }) {
///     Ok(engine) => println!("{:?}", engine.datapath_attributes()),
///     Err(error) => println!("{error}"), // says what is missing, and how to get it
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsOptions {
    /// The name of the device, as `ibv_devices` or `rdma link` show it. It is the device of the
    /// first rail. The addresses in [`crate::EngineConfig::rails`] select those of further rails.
    pub device: String,
    /// The port of the device, from 1. Default: 1.
    pub port: u8,
    /// The entry of the port's GID table with the port's address. Default: `None`, the entry of the
    /// address that the engine is bound to, otherwise the first RoCE v2 entry with an IPv4 address,
    /// otherwise the first RoCE v2 entry.
    pub gid_index: Option<u32>,
    /// The service that carries the paths. Default: [`VerbsService::Uc`].
    pub service: VerbsService,
}

impl VerbsOptions {
    /// The first port of `device`, over unreliable connections.
    pub fn new(device: impl Into<String>) -> Self {
        let service = VerbsService::default();
        VerbsOptions { device: device.into(), port: 1, gid_index: None, service }
    }
}

/// The reason why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsSetupError {
    /// The library, the driver or the device reports an error.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The port is not up.
    #[error(
        "{device} port {port} is {state:?}, not Active; bring its network interface up \
         (`rdma link` names it, `ip link set IF up`)"
    )]
    PortDown {
        /// The name of the device.
        device: String,
        /// The number of the port.
        port: u8,
        /// The state of the port.
        state: PortState,
    },
    /// The port has no suitable GID.
    #[error(
        "{device} port {port} has no RoCE v2 address{}; give its network interface an IP address, \
         or name a GID index",
        of.map_or(String::new(), |ip| format!(" {ip}"))
    )]
    NoGid {
        /// The name of the device.
        device: String,
        /// The number of the port.
        port: u8,
        /// The wanted address.
        of: Option<IpAddr>,
    },
    /// No device has the address of a further rail.
    #[error(
        "no RDMA device of this machine has the RoCE v2 address {ip}, which is to be a rail; \
         there are {devices:?}: give the network interface of one the address, and bring it up"
    )]
    NoRail {
        /// The address of the rail.
        ip: IpAddr,
        /// The devices of this machine.
        devices: Vec<String>,
    },
    /// A connection would need more NIC queue pairs than it can name.
    #[error(
        "{paths} paths on each of {rails} rails are more than a connection over verbs can name: \
         at most {max} with as many rails; take fewer `paths`"
    )]
    Paths {
        /// The requested number of paths.
        paths: usize,
        /// The number of rails.
        rails: usize,
        /// The largest number of paths.
        max: usize,
    },
    /// The system has no memory left.
    #[error("{0}")]
    Memory(String),
    /// Segments would have too many NIC packets.
    #[error("an `mtu` of {mtu} bytes is too long for a path MTU of {path}: at most {most}")]
    Mtu {
        /// The requested size.
        mtu: u16,
        /// The largest size.
        most: usize,
        /// The path MTU of the device's port.
        path: u32,
    },
    /// Faults can only be injected into datagrams.
    #[error(
        "faults cannot be injected over verbs: the NIC's packets do not pass through Braid; use \
         `tc qdisc add dev IF root netem ...`"
    )]
    Faults,
}

impl From<BuffersError> for VerbsSetupError {
    fn from(error: BuffersError) -> Self {
        match error {
            BuffersError::Verbs(error) => VerbsSetupError::Verbs(error),
            other => VerbsSetupError::Memory(other.to_string()),
        }
    }
}
