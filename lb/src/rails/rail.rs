//! One rail.

use braid_wire::PathId;

use super::proof::Proof;
use crate::PathSet;

/// One rail.
#[derive(Debug)]
pub(super) struct Rail {
    pub(super) paths: PathSet,
    pub(super) proof: Proof,
    /// Whether the PONG that last brought the rail up came from the peer's receiving port.
    pub(super) by_port: bool,
}

impl Rail {
    pub(super) fn new(paths: PathSet, proof: Proof) -> Self {
        Rail { paths, proof, by_port: false }
    }
}

/// Returns a path as the path set of its rail identifies it.
pub(super) fn within(path: PathId) -> PathId {
    PathId::new(path.get())
}
