//! Errors of setting up the verbs datapath.

#[cfg(feature = "verbs")]
use std::net::IpAddr;

#[cfg(feature = "verbs")]
use braid_verbs::{PortState, VerbsError};

#[cfg(feature = "verbs")]
use super::buffers::BuffersError;

/// The reason why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsSetupError {
    /// The library, the driver or the device reports an error.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The port is not up.
    #[cfg(feature = "verbs")]
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
    #[cfg(feature = "verbs")]
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
    #[cfg(feature = "verbs")]
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
    #[cfg(feature = "verbs")]
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
    #[cfg(feature = "verbs")]
    #[error("{0}")]
    Memory(String),
    /// Segments would have too many NIC packets.
    #[cfg(feature = "verbs")]
    #[error("an `mtu` of {mtu} bytes is too long for a path MTU of {path}: at most {most}")]
    Mtu {
        /// The requested size.
        mtu: u16,
        /// The largest size.
        most: usize,
        /// The path MTU of the device's port.
        path: u32,
    },
    /// The program was built without RDMA devices.
    #[error(
        "this program was built without RDMA devices; build it with the feature `verbs` of the \
         crate braid-rdma, or take UDP"
    )]
    NotBuilt,
    /// Faults can only be injected into datagrams.
    #[cfg(feature = "verbs")]
    #[error(
        "faults cannot be injected over verbs: the NIC's packets do not pass through Braid; use \
         `tc qdisc add dev IF root netem ...`"
    )]
    Faults,
}

#[cfg(feature = "verbs")]
impl From<BuffersError> for VerbsSetupError {
    fn from(error: BuffersError) -> Self {
        match error {
            BuffersError::Verbs(error) => VerbsSetupError::Verbs(error),
            other => VerbsSetupError::Memory(other.to_string()),
        }
    }
}
