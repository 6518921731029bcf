//! Which device an engine uses, and how.

use std::net::IpAddr;

use braid_verbs::{PortState, VerbsError};

use super::buffers::BuffersError;

/// Which service of the NIC carries a queue pair's paths (IBTA vol. 1, 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum VerbsService {
    /// Unreliable connection: what is lost is resent by Braid, on whatever path is good.
    #[default]
    Uc,
    /// Reliable connection, for NICs that have no UC: the NIC resends by its own lights.
    Rc,
}

/// An RDMA device and how it is used.
///
/// More fields may come: begin with [`VerbsOptions::new`].
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
    /// Its name, as `ibv_devices` or `rdma link` tell it. It is the first rail's: those of further
    /// rails are found by the addresses in [`crate::EngineConfig::rails`].
    pub device: String,
    /// Its port, from 1. Default: 1.
    pub port: u8,
    /// The entry of the port's GID table that is its address. Default: `None`, the one of the
    /// address that the engine is bound to, or else the first of RoCE v2 that is an IPv4 address,
    /// or else the first of RoCE v2.
    pub gid_index: Option<u32>,
    /// What carries the paths. Default: [`VerbsService::Uc`].
    pub service: VerbsService,
}

impl VerbsOptions {
    /// The first port of `device`, over unreliable connections.
    pub fn new(device: impl Into<String>) -> Self {
        let service = VerbsService::default();
        VerbsOptions { device: device.into(), port: 1, gid_index: None, service }
    }
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsSetupError {
    /// The library, the driver or the device says so.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The port is not up.
    #[error(
        "{device} port {port} is {state:?}, not Active; bring its network interface up (`rdma link` names it, `ip link set IF up`)"
    )]
    PortDown {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Its state.
        state: PortState,
    },
    /// No GID to choose by itself.
    #[error(
        "{device} port {port} has no RoCE v2 address{}; give its network interface an IP address, or name a GID index",
        of.map_or(String::new(), |ip| format!(" {ip}"))
    )]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The address that was looked for.
        of: Option<IpAddr>,
    },
    /// No device for a further rail.
    #[error(
        "no RDMA device of this machine has the RoCE v2 address {ip}, which is to be a rail; there are {devices:?}: give the network interface of one the address, and bring it up"
    )]
    NoRail {
        /// The rail's address.
        ip: IpAddr,
        /// The devices that there are.
        devices: Vec<String>,
    },
    /// More paths than a connection has NIC queue pairs.
    #[error(
        "{paths} paths on each of {rails} rails are more than a connection over verbs can name: at most {max} with as many rails; take fewer `paths`"
    )]
    Paths {
        /// What was asked for.
        paths: usize,
        /// On so many rails.
        rails: usize,
        /// How many there can be.
        max: usize,
    },
    /// No memory.
    #[error("{0}")]
    Memory(String),
    /// Segments of too many NIC packets.
    #[error("an `mtu` of {mtu} bytes is too long for a path MTU of {path}: at most {most}")]
    Mtu {
        /// What was asked for.
        mtu: u16,
        /// The most there can be.
        most: usize,
        /// Path MTU of the device's port.
        path: u32,
    },
    /// Faults below the protocol are injected into datagrams.
    #[error(
        "faults cannot be injected over verbs: the NIC's packets do not pass through Braid; use `tc qdisc add dev IF root netem ...`"
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
