//! Memory that idle queues keep.

/// Entries that a queue keeps room for when it is idle.
pub(crate) const KEPT_ENTRIES: usize = 8;
