//! The paths to a destination as a worker sees them.

use std::net::IpAddr;

use braid_lb::PathReport;

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
