//! The paths to one destination group, as a policy sees them.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::lowest::Lowest;
use crate::path::{Path, nanos};
use crate::slots::{Slots, index};
use crate::{Order, PathCounters, PathRng};

/// Where marks are missing, a round trip beyond so many of the lowest plus a slack counts as congested. Our
/// choice: many networks do not mark, and REPS and PLB know congestion by marks only. With 8 for 2, REPS
/// stays on few links once it is there (measured: 0.79 of the capacity instead of 0.99).
const LATE_ROUND_TRIPS: u64 = 2;
const LATE_SLACK_NS: u64 = 200_000;

/// The paths to one destination group, as a policy sees them: those that are live, in order, and what is known of each.
///
/// Policies compute with positions in the list of live paths ("slots"); there is always at least one.
#[derive(Debug)]
pub struct Paths {
    /// By path.
    pub(crate) states: Vec<Path>,
    pub(crate) slots: Slots,
    order: Order,
    /// The live paths by what `order` says: their ranks, or their smoothed round-trip times in nanoseconds.
    lowest: Lowest,
    /// The slot of the next look at whether a round-trip time is too old.
    next_doubt: usize,
}

impl Paths {
    /// Paths 0 to `count - 1`, all live.
    pub(crate) fn new(count: usize, order: Order) -> Self {
        let mut paths = Paths {
            states: vec![Path::default(); count],
            slots: Slots::new(count),
            order,
            lowest: Lowest::new(if order == Order::None { 0 } else { count }),
            next_doubt: 0,
        };
        paths.refile_all();
        paths
    }

    /// How many are live; at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether a path is live. One that does not exist is not.
    pub fn is_live(&self, path: PathId) -> bool {
        self.slots.is_live(path)
    }

    /// The live path in a slot, counted round the list.
    pub fn at(&self, slot: usize) -> PathId {
        self.slots.at(slot)
    }

    /// A random live path.
    pub fn random(&self, rng: &mut PathRng) -> PathId {
        self.slots.random(rng)
    }

    /// A random live path that is none of the `taken` (a handful), if there is one.
    pub fn random_beside(&self, taken: &[PathId], rng: &mut PathRng) -> Option<PathId> {
        self.slots.random_beside(taken, rng)
    }

    /// What has been seen of a path; `None`: there is no such path.
    pub fn counters(&self, path: PathId) -> Option<PathCounters> {
        self.states.get(index(path)).map(Path::counters)
    }

    /// The live path with the lowest rank, the lowest number among equals; any under an order other than
    /// [`Order::Rank`].
    pub fn best(&self) -> PathId {
        self.lowest.index().map_or_else(|| self.at(0), |best| PathId::new(best as u16))
    }

    /// The rank of the best live path; `u64::MAX` under an order other than [`Order::Rank`].
    pub fn lowest_rank(&self) -> u64 {
        match self.order {
            Order::Rank => self.lowest.key().unwrap_or(u64::MAX),
            Order::None | Order::Rtt => u64::MAX,
        }
    }

    /// How good a live path is; the smaller, the better: unmeasured paths, the emptiest first; then by the smoothed
    /// round-trip time times the packets that would be under way.
    pub fn rank(&self, path: PathId) -> u64 {
        self.states[index(path)].rank()
    }

    /// Whether a round trip took so much longer than on the fastest live path that it has met congestion, which not every
    /// network marks; never under an order other than [`Order::Rtt`].
    pub fn is_late(&self, rtt: Duration) -> bool {
        let lowest = match self.order {
            Order::Rtt => self.lowest.key().unwrap_or(u64::MAX),
            Order::None | Order::Rank => u64::MAX,
        };
        nanos(rtt) > lowest.saturating_mul(LATE_ROUND_TRIPS).saturating_add(LATE_SLACK_NS)
    }

    /// All paths, as a loop that changes them needs them.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.states.len() as u16).map(PathId::new)
    }

    /// Makes the list of slots again after a path went down or up.
    pub(crate) fn relist(&mut self) {
        let states = &self.states;
        self.slots.relist(|path| states[index(path)].health.is_down());
    }

    /// Files a path again after what its key is made of, or its being live, has changed.
    #[inline]
    pub(crate) fn refile(&mut self, path: PathId) {
        if self.order != Order::None {
            self.file(path);
        }
    }

    /// Apart, so that whoever files nothing has it in no loop.
    #[inline(never)]
    fn file(&mut self, path: PathId) {
        let state = &self.states[index(path)];
        let key = match self.order {
            Order::None => None,
            Order::Rank => Some(state.rank()),
            Order::Rtt => state.rtt_ns.map(|rtt| rtt.min(u64::MAX - 1)),
        };
        match key.filter(|_| self.slots.is_live(path)) {
            Some(key) => self.lowest.set(index(path), key),
            None => self.lowest.clear(index(path)),
        }
    }

    pub(crate) fn refile_all(&mut self) {
        self.by_number().for_each(|path| self.refile(path));
    }

    /// The lowest smoothed round-trip time of all live paths.
    pub(crate) fn lowest_rtt(&self) -> Option<Duration> {
        let live = self.by_number().filter(|path| self.slots.is_live(*path));
        live.filter_map(|path| self.states[index(path)].rtt()).min()
    }

    /// Under [`Order::Rank`], doubts a round-trip time that is too old; each pick looks at one path.
    pub(crate) fn doubt_one(&mut self, now: Time) {
        if self.order != Order::Rank {
            return;
        }
        let slot = self.next_doubt % self.len();
        self.next_doubt = slot + 1;
        let path = self.at(slot);
        if self.states[index(path)].doubt(now) {
            self.refile(path);
        }
    }
}

#[cfg(test)]
impl Paths {
    /// What policies without an order are tested with.
    pub(crate) fn all_live(count: usize) -> Self {
        Paths::new(count, Order::None)
    }

    /// Only these are down now.
    pub(crate) fn without(&mut self, dead: &[u16]) {
        self.slots.relist(|path| dead.contains(&path.get()));
    }
}
