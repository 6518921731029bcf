//! The configuration of path discovery, and its errors.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braid_transport::TimerError;

/// The configuration of path discovery.
///
/// ```no_run
/// use std::time::Duration;
///
/// use braid::{DiscoveryConfig, PathId, discover};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let patience = Duration::from_secs(3);
/// let how = DiscoveryConfig { max_ttl: 4, patience, ..Default::default() };
/// let (to, from) = ("192.0.2.7:4791".parse()?, "0.0.0.0".parse()?);
/// let map = discover(to, from, (0..16).map(PathId::new), how)?;
/// println!("{} ways, {} ports without an answer", map.ways.len(), map.unanswered);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiscoveryConfig {
    /// The largest number of hops. Default: 16.
    pub max_ttl: u8,
    /// Time to wait for an answer. The wait is shorter once the usual time of answers is known.
    /// Default: 200 ms.
    pub timeout: Duration,
    /// The number of probes to a hop that does not answer. Default: 3.
    pub tries: u32,
    /// The shortest time between two probes. All probes may end at the same router, whose answers
    /// cost it time and are limited (a Linux router sends 1000 to 10,000 a second). Default: 1 ms.
    pub spacing: Duration,
    /// The total time of repeated probes to hops that tell routes apart, if routers limit their
    /// answers. Default: 10 s.
    pub patience: Duration,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        DiscoveryConfig {
            max_ttl: 16,
            timeout: Duration::from_millis(200),
            tries: 3,
            spacing: Duration::from_millis(1),
            patience: Duration::from_secs(10),
        }
    }
}

impl DiscoveryConfig {
    pub(super) fn check(&self) -> Result<(), TimerError> {
        TimerError::check("timeout", self.timeout, Duration::ZERO)?;
        TimerError::check("spacing", self.spacing, Duration::ZERO)?;
        TimerError::check("patience", self.patience, Duration::ZERO)
    }
}

/// The reason why discovery failed. A destination without answers is no error, but a map without
/// routes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The destination has no port.
    #[error("{to} has no port; give the one that the peer's engine listens on")]
    NoDestinationPort {
        /// The destination.
        to: SocketAddr,
    },
    /// The addresses have different IP versions.
    #[error("{to} cannot be reached from {from}; both have to be IPv4, or both IPv6")]
    OtherFamily {
        /// The destination.
        to: SocketAddr,
        /// The local address.
        from: IpAddr,
    },
    /// This machine has no route to the destination, or forbids it.
    #[error(
        "{to} cannot be reached from here: {source}; check the address, the routes and the firewall"
    )]
    NoRoute {
        /// The destination.
        to: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A router or this machine reports that the destination is unreachable, and no path reached
    /// it.
    #[error(
        "{to} cannot be reached: {by} says so; check that the host is up and its port not \
         forbidden there"
    )]
    Unreachable {
        /// The destination.
        to: SocketAddr,
        /// The reporting router, or this machine if a neighbour does not answer.
        by: IpAddr,
    },
    /// A time of the configuration is out of range.
    #[error(transparent)]
    Timer(#[from] TimerError),
    /// The source port of a path cannot be used.
    #[error("path {path} cannot be probed: {source}")]
    Port {
        /// The number of the path.
        path: u16,
        /// The error of the system.
        source: io::Error,
    },
}
