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

impl super::Rails {
    /// Returns the path that the next pick returns, if that is certain and there is a single rail.
    /// Drivers with many path sets prefetch its state.
    #[inline]
    pub fn foresee(&self) -> Option<PathId> {
        if self.further.is_empty() { self.first.paths.foresee() } else { None }
    }

    /// Visits the place in memory of a path's state, for drivers with so many paths that they
    /// prefetch them. A path that does not exist has none.
    #[inline]
    pub fn state_of(&self, path: PathId, visit: impl FnMut(*const u8, usize)) {
        if let Some(rail) = self.all().nth(path.rail().get()) {
            rail.paths.state_of(within(path), visit);
        }
    }
}

/// Returns a path as the path set of its rail identifies it.
pub(super) fn within(path: PathId) -> PathId {
    PathId::new(path.get())
}
