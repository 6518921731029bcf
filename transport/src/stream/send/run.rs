//! The state of a run, see `qp/run.rs`.

use braid_wire::{PathId, Psn};

/// The segments of a run that are not handed out yet. A default run is over.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Run {
    pub(crate) next: Psn,
    pub(crate) left: u32,
    pub(crate) path: PathId,
    /// The last of it asks for an acknowledgement.
    pub(crate) asks: bool,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}
