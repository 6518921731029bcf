//! The probes of rails and paths.

use braid_wire::PathId;

/// A PING to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RailProbe {
    /// The path, unless `by_port` is set.
    pub path: PathId,
    /// Send the PING from the receiving port of the rail, because a firewall may block the ports of
    /// the paths.
    pub by_port: bool,
    /// The stamp of the PING.
    pub stamp: u32,
}
