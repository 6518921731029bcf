//! Bytes by rail.

use std::ops::{Index, IndexMut};

use braid_wire::{MAX_RAILS, RailId};

/// So many bytes on each rail.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RailBytes([u64; MAX_RAILS]);

impl RailBytes {
    /// None on any.
    pub(crate) const NOTHING: RailBytes = RailBytes([0; MAX_RAILS]);

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<RailId> for RailBytes {
    type Output = u64;

    #[inline]
    fn index(&self, rail: RailId) -> &u64 {
        &self.0[rail.get()]
    }
}

impl IndexMut<RailId> for RailBytes {
    #[inline]
    fn index_mut(&mut self, rail: RailId) -> &mut u64 {
        &mut self.0[rail.get()]
    }
}
