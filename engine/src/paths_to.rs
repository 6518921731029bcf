//! What a worker knows of the paths to a destination.

use std::net::IpAddr;

use braid_lb::PathReport;

/// The paths to one destination on one rail, as one worker of an engine sees them.
#[derive(Clone, Debug)]
pub struct PathsTo {
    /// The destination.
    pub ip: IpAddr,
    /// The rail: 0 is the one over which connections are set up.
    pub rail: usize,
    /// Its paths, by number.
    pub paths: Vec<PathReport>,
}
