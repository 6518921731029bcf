//! A run: new segments that leave right behind another one, on its path and in its batch. Whether a segment may leave is found out in many
//! places, and holds for those behind it as well: so it is found out once how many may follow, and they enter the window
//! together. They are handed out one by one; meanwhile the stream keeps its turn.

use braid_wire::{PathId, Psn};

/// What is still to be handed out of a run. A default one is over.
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
