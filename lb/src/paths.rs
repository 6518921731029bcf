//! The paths to one destination group, as a policy sees them.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::health::Probes;
use crate::lowest::Lowest;
use crate::path::{Path, nanos};
use crate::slots::{Slots, index};
use crate::states::States;
use crate::{Batch, Order, Outcome, PathCounters, PathReport, PathRng};

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
    pub(crate) states: States,
    pub(crate) slots: Slots,
    order: Order,
    /// The live paths by what `order` says: their ranks, or their smoothed round-trip times in nanoseconds.
    lowest: Lowest,
    /// The slot of the next look at whether a round-trip time is too old.
    next_doubt: usize,
    pub(crate) probes: Probes,
    /// Whether paths that lose everything are taken out of use.
    pub(crate) has_health: bool,
    /// The most segments that a batch has had.
    batch: u32,
}

impl Paths {
    /// Paths 0 to the number of states less one, all live.
    pub(crate) fn new(states: States, order: Order) -> Self {
        let count = states.count();
        let mut paths = Paths {
            states,
            slots: Slots::new(count),
            order,
            lowest: Lowest::new(if order == Order::None { 0 } else { count }),
            next_doubt: 0,
            probes: Probes::default(),
            has_health: true,
            batch: 1,
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

    /// Whether there is such a path and it is not out of use.
    #[inline]
    pub(crate) fn is_up(&self, path: PathId) -> bool {
        self.states.get(path).is_some_and(|path| !path.health.is_down())
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
        self.states.get(path).map(Path::counters)
    }

    /// When a packet of this path was last acknowledged; `None` also where there is no such path.
    pub(crate) fn last_arrival(&self, path: PathId) -> Option<Time> {
        self.states.get(path)?.health.last_arrival()
    }

    /// Segments that have left on a path and have neither arrived nor been declared lost.
    pub(crate) fn in_flight(&self, path: PathId) -> u32 {
        self.states[path].in_flight
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
        self.states[path].rank()
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

    /// Those in use and those that have been, by number.
    pub(crate) fn reports(&self) -> impl Iterator<Item = PathReport> {
        let reports = self.by_number().map(|path| {
            let counters = self.states[path].counters();
            PathReport { path, live: self.slots.is_live(path), counters }
        });
        reports.filter(|report| {
            let down = self.states[report.path].health.is_down();
            report.live || down || report.counters.sent > 0
        })
    }

    /// All paths, as a loop that changes them needs them.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.states.count() as u16).map(PathId::new)
    }

    /// Makes the list of slots again after a path went down or up.
    pub(crate) fn relist(&mut self) {
        let states = &self.states;
        let any_down = states.known().iter().any(|path| path.health.is_down());
        self.slots.relist(any_down, |path| states[path].health.is_down());
    }

    /// Only these from now on, in this order. What is down among them stays so, unless all are.
    pub(crate) fn use_only(&mut self, paths: &[PathId]) {
        self.slots.reorder(paths);
        if paths.iter().all(|path| self.states[*path].health.is_down()) {
            self.bring_all_back();
        } else {
            self.relist();
            self.refile_all();
        }
    }

    /// A batch is about to leave.
    #[inline]
    pub(crate) fn on_pick(&mut self, batch: Batch) {
        self.batch = self.batch.max(batch.segments);
        self.doubt_one(batch.now);
    }

    /// A segment leaves on a path.
    #[inline]
    pub(crate) fn on_sent(&mut self, path: PathId, retransmission: bool) {
        self.states[path].on_sent(retransmission);
        self.refile(path);
    }

    /// What became of packets on a path that there is.
    pub(crate) fn on_feedback(&mut self, now: Time, path: PathId, outcome: &Outcome) {
        match *outcome {
            Outcome::Arrived { packets, rtt, congested } => {
                self.on_arrival(now, path, packets, rtt, congested);
            }
            Outcome::Lost { packets } => self.on_loss(now, path, packets),
            Outcome::Forgotten { packets } => self.on_forgotten(path, packets),
        }
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
        let state = &self.states[path];
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
        if self.order == Order::None {
            return;
        }
        self.by_number().for_each(|path| self.refile(path));
    }

    /// The lowest smoothed round-trip time of all live paths.
    pub(crate) fn lowest_rtt(&self) -> Option<Duration> {
        let live = self.by_number().filter(|path| self.slots.is_live(*path));
        live.filter_map(|path| self.states[path].rtt()).min()
    }

    /// Under [`Order::Rank`], doubts a round-trip time that is too old; each pick looks at one path.
    fn doubt_one(&mut self, now: Time) {
        if self.order != Order::Rank {
            return;
        }
        let slot = self.next_doubt % self.len();
        self.next_doubt = slot + 1;
        let path = self.at(slot);
        if self.states[path].doubt(now) {
            self.refile(path);
        }
    }

    fn on_arrival(&mut self, now: Time, path: PathId, packets: u32, rtt: Duration, marked: bool) {
        let state = &mut self.states[path];
        state.on_arrival(now, packets, rtt, marked);
        state.health.on_arrival(now);
        if state.health.is_down() {
            self.bring_back(now, path); // the losses were none
        }
        self.refile(path);
    }

    fn on_loss(&mut self, now: Time, path: PathId, packets: u32) {
        let batch = self.batch;
        let state = &mut self.states[path];
        state.counts.lost += u64::from(packets);
        let packets = state.health.lost_since_back(now, packets);
        state.in_flight = state.in_flight.saturating_sub(packets);
        if packets == 0 {
            return;
        }
        let rtt = state.rtt();
        if self.slots.is_live(path) && state.health.on_loss(now, packets, batch, rtt) {
            self.take_down(now, path);
        }
        self.refile(path);
    }

    fn on_forgotten(&mut self, path: PathId, packets: u32) {
        let state = &mut self.states[path];
        state.in_flight = state.in_flight.saturating_sub(packets);
        self.refile(path);
    }
}

#[cfg(test)]
impl Paths {
    /// What policies without an order are tested with.
    pub(crate) fn all_live(count: usize) -> Self {
        Paths::new(States::all(count), Order::None)
    }

    /// Only these are down now.
    pub(crate) fn without(&mut self, dead: &[u16]) {
        self.slots.relist(true, |path| dead.contains(&path.get()));
    }
}
