//! Runs. A run consists of new segments that leave directly behind another segment, on its path and
//! in its batch.

use braid_wire::{PathId, Psn};

/// The segments of a run that remain to be handed out. A default run is over.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Run {
    pub(crate) next: Psn,
    pub(crate) left: u32,
    pub(crate) path: PathId,
    /// Payload bytes of all its segments.
    pub(crate) bytes: u64,
    /// Whether the last segment requests an acknowledgement.
    pub(crate) asks: bool,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}
