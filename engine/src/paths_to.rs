//! The paths to a destination as a worker sees them.

use std::net::{IpAddr, SocketAddr};

use braid_lb::PathReport;
use braid_wire::PathId;

/// The paths to one destination on one rail, as one worker of an engine sees them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathsTo {
    /// The destination. The first address of its first prefix stands for the hosts of a
    /// destination group ([`crate::DestinationGroups`]).
    pub ip: IpAddr,
    /// The rail: 0 is the one over which connections are set up.
    pub rail: usize,
    /// Its paths, by number.
    pub paths: Vec<PathReport>,
    /// The number of paths in use. If packets from the ports of paths do not get through
    /// ([`crate::Degradation::PathPortsBlocked`]), no path is live, and all packets use one: that
    /// of the receiving port.
    pub in_use: usize,
}

impl PathsTo {
    pub(crate) fn by_paths(ip: IpAddr, rail: usize, paths: Vec<PathReport>) -> Self {
        let in_use = paths.iter().filter(|path| path.live).count();
        PathsTo { ip, rail, paths, in_use }
    }

    /// The report for a destination to which all packets leave from the receiving port.
    pub(crate) fn by_port(ip: IpAddr, rail: usize, mut paths: Vec<PathReport>) -> Self {
        let is_live = paths.iter().any(|path| path.live);
        paths.iter_mut().for_each(|path| path.live = false);
        PathsTo { ip, rail, paths, in_use: is_live.into() }
    }
}

/// A connection of a path, where paths are TCP connections. Its ports and the addresses of both
/// hosts determine the route of its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathRoute {
    /// The address at which the peer accepts connections.
    pub to: SocketAddr,
    /// The rail.
    pub rail: usize,
    /// The path. `None`: the connection of set-up and acknowledgements, or one that is being
    /// opened.
    pub path: Option<PathId>,
    /// The port of this host.
    pub local_port: u16,
    /// The port of the peer's host.
    pub remote_port: u16,
}
