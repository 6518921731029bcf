//! What a rail policy chooses from.

use braid_wire::{MAX_RAILS, RailId};

use super::{HostLoads, as_path};
use crate::PathCounters;
use crate::paths::Paths;

/// A set of rails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RailSet(u8);

const _: () = assert!(MAX_RAILS <= u8::BITS as usize);

impl RailSet {
    /// Whether a rail is in it.
    #[inline]
    pub fn contains(self, rail: RailId) -> bool {
        self.0 >> rail.get() & 1 == 1
    }

    /// Whether all of `others` are in it.
    #[inline]
    pub fn contains_all(self, others: RailSet) -> bool {
        others.0 & !self.0 == 0
    }

    /// Adds a rail.
    pub fn insert(&mut self, rail: RailId) {
        self.0 |= 1 << rail.get();
    }

    /// Takes a rail out.
    pub fn remove(&mut self, rail: RailId) {
        self.0 &= !(1 << rail.get());
    }

    /// How many are in it.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it, ascending.
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

/// The rails in use, and what is known of them.
#[derive(Clone, Copy, Debug)]
pub struct RailChoice<'a> {
    /// Those in use; at least one.
    pub live: RailSet,
    /// Those of them that have room for the chunk now; at least one.
    pub open: RailSet,
    pub(super) known: &'a Paths,
    pub(super) host: &'a HostLoads,
    /// The rail that comes first among equals.
    pub(super) start: usize,
}

impl RailChoice<'_> {
    /// How loaded a rail is, over all streams to the destination; the smaller, the better. As [`Paths::rank`]: rails of which
    /// no round trip is known, the emptiest first; then by the smoothed round-trip time times the packets under way.
    pub fn load(&self, rail: RailId) -> u64 {
        self.known.rank(as_path(rail))
    }

    /// What has been seen of a rail, over all streams to the destination.
    pub fn counters(&self, rail: RailId) -> PathCounters {
        self.known.counters(as_path(rail)).unwrap_or_default()
    }

    /// How far a rail comes after the one that comes first among equals, which is another for each destination.
    pub fn turn(&self, rail: RailId) -> usize {
        (rail.get() + MAX_RAILS - self.start) % MAX_RAILS
    }
}
