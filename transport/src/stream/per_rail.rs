//! Number of bytes on each rail, and length of segments on each rail.

use std::ops::{Index, IndexMut};

use braid_lb::RailSet;
use braid_wire::{MAX_RAILS, RailId};

/// A number of bytes on each rail.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RailBytes([u64; MAX_RAILS]);

impl RailBytes {
    /// No bytes on any rail.
    pub(crate) const NOTHING: RailBytes = RailBytes([0; MAX_RAILS]);

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The rails with a number above zero.
    pub(crate) fn rails(&self) -> RailSet {
        (0..MAX_RAILS).map(RailId::new).filter(|rail| self[*rail] > 0).collect()
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

/// Payload bytes of the longest segment that each rail carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RailPayloads {
    by_rail: [u16; MAX_RAILS],
    /// The longest of the rails in use.
    longest: u16,
}

impl RailPayloads {
    /// Every rail carries the agreed segments.
    pub(crate) const ANY: RailPayloads =
        RailPayloads { by_rail: [u16::MAX; MAX_RAILS], longest: u16::MAX };

    /// `live`: the rails in use.
    pub(crate) fn new(by_rail: [u16; MAX_RAILS], live: RailSet) -> Self {
        let longest = live.iter().map(|rail| by_rail[rail.get()]).max();
        RailPayloads { by_rail, longest: longest.unwrap_or(u16::MAX) }
    }

    #[inline]
    pub(crate) fn on(&self, rail: RailId) -> u16 {
        self.by_rail[rail.get()]
    }

    #[inline]
    pub(crate) fn longest(&self) -> u16 {
        self.longest
    }
}
