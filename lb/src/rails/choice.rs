//! The candidates of a rail policy.

use braid_wire::{MAX_RAILS, PathId, RailId};

use super::host_loads::HostLoads;
use crate::PathCounters;
use crate::paths::Paths;

/// A set of rails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RailSet(u8);

const _: () = assert!(MAX_RAILS <= u8::BITS as usize);

impl RailSet {
    /// Returns whether the set contains a rail.
    #[inline]
    pub fn contains(self, rail: RailId) -> bool {
        self.0 >> rail.get() & 1 == 1
    }

    /// Returns whether the set contains all of `others`.
    #[inline]
    pub fn contains_all(self, others: RailSet) -> bool {
        others.0 & !self.0 == 0
    }

    /// Adds a rail.
    pub fn insert(&mut self, rail: RailId) {
        self.0 |= 1 << rail.get();
    }

    /// Removes a rail.
    pub fn remove(&mut self, rail: RailId) {
        self.0 &= !(1 << rail.get());
    }

    /// Returns the number of rails.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the rails in ascending order.
    pub fn iter(self) -> impl Iterator<Item = RailId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let rail = (left != 0).then(|| RailId::new(left.trailing_zeros() as usize));
            left &= left.wrapping_sub(1);
            rail
        })
    }
}

impl FromIterator<RailId> for RailSet {
    fn from_iter<I: IntoIterator<Item = RailId>>(rails: I) -> Self {
        let mut set = RailSet::default();
        rails.into_iter().for_each(|rail| set.insert(rail));
        set
    }
}

/// The rails in use and their state.
#[derive(Clone, Copy, Debug)]
pub struct RailChoice<'a> {
    /// The rails in use, at least one.
    pub live: RailSet,
    /// The rails in use that have space for the chunk now, at least one.
    pub open: RailSet,
    pub(super) known: &'a Paths,
    pub(super) host: &'a HostLoads,
    /// The first rail among equals.
    pub(super) start: usize,
}

impl RailChoice<'_> {
    /// Returns the load of a rail over all streams to the destination. A smaller load is better.
    ///
    /// The order is that of [`Paths::rank`]: rails without a round-trip sample come first, the
    /// emptiest of them foremost. The others are ordered by the smoothed round-trip time times the
    /// packets in flight.
    pub fn load(&self, rail: RailId) -> u64 {
        self.known.rank(as_path(rail))
    }

    /// Returns the counters of a rail over all streams to the destination.
    pub fn counters(&self, rail: RailId) -> PathCounters {
        self.known.counters(as_path(rail)).unwrap_or_default()
    }

    /// Returns the distance of a rail from the first one among equals, which differs for each
    /// destination.
    pub fn turn(&self, rail: RailId) -> usize {
        (rail.get() + MAX_RAILS - self.start) % MAX_RAILS
    }
}

/// Returns the path number that stands for a rail in `Paths`.
pub(super) fn as_path(rail: RailId) -> PathId {
    PathId::new(rail.get() as u16)
}
