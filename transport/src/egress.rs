//! By which port of its sender a packet leaves.

use braid_wire::{PathId, RailId};

/// By which port of its sender a packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Egress {
    /// That of a path.
    Path(PathId),
    /// The receiving port of a rail. A peer that does not know the connection any more can answer
    /// to it.
    Port(RailId),
}

impl Egress {
    /// The rail that it leaves by.
    pub fn rail(self) -> RailId {
        match self {
            Egress::Path(path) => path.rail(),
            Egress::Port(rail) => rail,
        }
    }

    /// The path, if it takes one.
    pub fn path(self) -> Option<PathId> {
        match self {
            Egress::Path(path) => Some(path),
            Egress::Port(_) => None,
        }
    }
}
