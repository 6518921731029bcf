//! The paths to one destination group, as a policy sees them.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::health::Probes;
use crate::lowest::Lowest;
use crate::path::{Path, nanos};
use crate::slots::{Slots, index};
use crate::states::States;
use crate::suspicion::Suspicion;
use crate::{Batch, Order, Outcome, PathCounters, PathReport, PathRng};

/// A round trip longer than this multiple of the lowest one plus the slack counts as congested.
///
/// Our choice: many networks do not mark packets, and REPS and PLB detect congestion by marks only.
/// With a multiple of 8 instead of 2, REPS stays on few links (measured: 0.79 of the capacity
/// instead of 0.99).
const LATE_ROUND_TRIPS: u64 = 2;
const LATE_SLACK_NS: u64 = 200_000;

/// The paths to one destination group, as a policy sees them: the ordered list of live paths and
/// their state.
///
/// Policies compute with positions in the list of live paths ("slots"). At least one path is always
/// live.
#[derive(Debug)]
pub struct Paths {
    pub(crate) states: States,
    pub(crate) slots: Slots,
    order: Order,
    /// The live paths by `order`: their ranks, or their smoothed round-trip times in nanoseconds.
    lowest: Lowest,
    /// The next slot whose round-trip time is checked for its age.
    next_doubt: usize,
    pub(crate) probes: Probes,
    pub(crate) suspicion: Suspicion,
    /// Whether paths without arrivals go down.
    pub(crate) has_health: bool,
    /// The maximum number of segments of a batch so far.
    batch: u32,
}

impl Paths {
    /// Creates one live path for each state.
    pub(crate) fn new(states: States, order: Order) -> Self {
        let count = states.count();
        let mut paths = Paths {
            states,
            slots: Slots::new(count),
            order,
            lowest: Lowest::new(if order == Order::None { 0 } else { count }),
            next_doubt: 0,
            probes: Probes::default(),
            suspicion: Suspicion::default(),
            has_health: true,
            batch: 1,
        };
        paths.refile_all();
        paths
    }

    /// Returns the number of live paths, at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether a path exists and is live.
    pub fn is_live(&self, path: PathId) -> bool {
        self.slots.is_live(path)
    }

    /// Returns whether a path exists and is not down.
    #[inline]
    pub(crate) fn is_up(&self, path: PathId) -> bool {
        self.states.get(path).is_some_and(|path| !path.health.is_down())
    }

    /// Returns the live path in a slot, modulo the number of live paths.
    pub fn at(&self, slot: usize) -> PathId {
        self.slots.at(slot)
    }

    /// Returns a random live path.
    pub fn random(&self, rng: &mut PathRng) -> PathId {
        self.slots.random(rng)
    }

    /// Returns a random live path that is not among the (few) `taken` ones, if there is one.
    pub fn random_beside(&self, taken: &[PathId], rng: &mut PathRng) -> Option<PathId> {
        self.slots.random_beside(taken, rng)
    }

    /// Returns the counters of a path, if it exists.
    pub fn counters(&self, path: PathId) -> Option<PathCounters> {
        self.states.get(path).map(Path::counters)
    }

    /// Returns the time of the last acknowledgement on a path, if there was one and the path
    /// exists.
    pub(crate) fn last_arrival(&self, path: PathId) -> Option<Time> {
        self.states.get(path)?.health.last_arrival()
    }

    /// Returns the number of segments on a path that neither arrived nor were declared lost.
    pub(crate) fn in_flight(&self, path: PathId) -> u32 {
        self.states[path].in_flight
    }

    /// Returns the live path with the lowest rank, and with the lowest number among equals. Without
    /// [`Order::Rank`], returns any live path.
    pub fn best(&self) -> PathId {
        self.lowest.index().map_or_else(|| self.at(0), |best| PathId::new(best as u16))
    }

    /// Returns the rank of the best live path, or `u64::MAX` without [`Order::Rank`].
    pub fn lowest_rank(&self) -> u64 {
        match self.order {
            Order::Rank => self.lowest.key().unwrap_or(u64::MAX),
            Order::None | Order::Rtt => u64::MAX,
        }
    }

    /// Returns the rank of a live path. A smaller rank is better.
    ///
    /// Unmeasured paths come first, the emptiest of them foremost. The others are ordered by the
    /// smoothed round-trip time times the number of packets in flight including the next one.
    pub fn rank(&self, path: PathId) -> u64 {
        self.states[path].rank()
    }

    /// Returns whether a round trip shows congestion by its excess over the fastest live path, for
    /// networks that do not mark packets. Always false without [`Order::Rtt`].
    pub fn is_late(&self, rtt: Duration) -> bool {
        let lowest = match self.order {
            Order::Rtt => self.lowest.key().unwrap_or(u64::MAX),
            Order::None | Order::Rank => u64::MAX,
        };
        nanos(rtt) > lowest.saturating_mul(LATE_ROUND_TRIPS).saturating_add(LATE_SLACK_NS)
    }

    /// Returns the paths that are or were in use, by number.
    pub(crate) fn reports(&self) -> impl Iterator<Item = PathReport> {
        let reports = self.by_number().map(|path| {
            let counters = self.states[path].counters();
            PathReport { path, live: self.slots.is_live(path), counters }
        });
        reports.filter(|report| {
            let is_out = self.states[report.path].health.is_out();
            report.live || is_out || report.counters.sent > 0
        })
    }

    /// Returns all paths by number, without a borrow of `self`.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.states.count() as u16).map(PathId::new)
    }

    /// Rebuilds the list of slots after a path went down or came up.
    pub(crate) fn relist(&mut self) {
        let states = &self.states;
        let any_out = states.known().iter().any(|path| path.health.is_out());
        self.slots.relist(any_out, |path| states[path].health.is_out());
    }

    /// Limits the set to these paths in this order. A path that is down stays down, unless all of
    /// them are.
    pub(crate) fn use_only(&mut self, paths: &[PathId]) {
        self.slots.reorder(paths);
        if paths.iter().all(|path| self.states[*path].health.is_out()) {
            self.bring_all_back();
        } else {
            self.relist();
            self.refile_all();
        }
    }

    /// Records that a batch is about to be sent.
    #[inline]
    pub(crate) fn on_pick(&mut self, batch: Batch) {
        self.batch = self.batch.max(batch.segments);
        self.doubt_one(batch.now);
    }

    /// Records `packets` segments that are sent on a path.
    #[inline]
    pub(crate) fn on_sent(&mut self, path: PathId, packets: u32, retransmission: bool) {
        self.states[path].on_sent(packets, retransmission);
        self.refile(path);
    }

    /// Records feedback on an existing path.
    pub(crate) fn on_feedback(&mut self, now: Time, path: PathId, outcome: &Outcome) {
        match *outcome {
            Outcome::Arrived { packets, rtt, congested } => {
                self.on_arrival(now, path, packets, rtt, congested);
            }
            Outcome::Lost { packets, sent_at } => {
                let was_live = self.is_live(path);
                self.on_loss(now, path, packets, sent_at);
                if was_live {
                    self.suspect_since(now, path, sent_at);
                }
            }
            Outcome::Forgotten { packets } => self.on_forgotten(path, packets),
        }
    }

    /// Updates a path's place in the order after its key or its liveness has changed.
    #[inline]
    pub(crate) fn refile(&mut self, path: PathId) {
        if self.order != Order::None {
            self.file(path);
        }
    }

    /// A separate function, so that policies without an order do not inline it.
    #[inline(never)]
    fn file(&mut self, path: PathId) {
        let state = &self.states[path];
        let key = match self.order {
            Order::None => None,
            Order::Rank => Some(state.rank()),
            Order::Rtt => state.rtt.nanos(),
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

    /// Returns the lowest smoothed round-trip time of the live paths.
    pub(crate) fn lowest_rtt(&self) -> Option<Duration> {
        let live = self.by_number().filter(|path| self.slots.is_live(*path));
        live.filter_map(|path| self.states[path].rtt()).min()
    }

    /// Reduces the weight of an old round-trip time under [`Order::Rank`]. Each pick checks one
    /// path.
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
        let rtt_ns = nanos(rtt);
        let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt_ns));
        self.suspicion.on_arrival(packets, sent_at);
        let state = &mut self.states[path];
        state.on_arrival(now, packets, rtt_ns, marked);
        if state.health.on_arrival(now, sent_at) {
            // The losses were spurious.
            self.bring_back(now, path);
        }
        self.refile(path);
    }

    fn on_loss(&mut self, now: Time, path: PathId, packets: u32, sent_at: Time) {
        let batch = self.batch;
        let state = &mut self.states[path];
        state.health.counts_mut().lost += u64::from(packets);
        if state.health.was_down_since(sent_at) {
            return;
        }
        state.in_flight = state.in_flight.saturating_sub(packets);
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
    /// Creates live paths for tests of policies without an order.
    pub(crate) fn all_live(count: usize) -> Self {
        Paths::new(States::all(count), Order::None)
    }

    /// Takes exactly these paths down.
    pub(crate) fn without(&mut self, dead: &[u16]) {
        self.slots.relist(true, |path| dead.contains(&path.get()));
    }
}
