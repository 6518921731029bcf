//! The local port that a packet leaves from.

use braid_wire::{PathId, RailId};

/// The local port that a packet leaves from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Egress {
    /// The port of a path.
    Path(PathId),
    /// The receiving port of a rail. A peer that does not know the connection any more can reply to
    /// this port.
    Port(RailId),
}

impl Egress {
    /// The rail on which the packet leaves.
    pub fn rail(self) -> RailId {
        match self {
            Egress::Path(path) => path.rail(),
            Egress::Port(rail) => rail,
        }
    }

    /// The path, unless the packet leaves from the receiving port.
    pub fn path(self) -> Option<PathId> {
        match self {
            Egress::Path(path) => Some(path),
            Egress::Port(_) => None,
        }
    }
}
