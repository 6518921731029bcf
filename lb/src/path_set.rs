//! The paths to one destination group, and the policy that chooses among them.

use std::time::Duration;

use braid_wire::{MAX_PATHS, PathId, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flows::{Ecmp, Subflows, slot_of_psn};
use crate::health::Probes;
use crate::lowest::Lowest;
use crate::path::{Path, nanos};
use crate::plb::Plb;
use crate::pro::Pro;
use crate::qp_paths::State;
use crate::rank::is_far_worse;
use crate::reps::Ring;
use crate::slots::{Slots, index};
use crate::{LbPolicy, Outcome, PathReport, QpPaths, Selector, Train};

/// Paths that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathsError {
    /// There are too few or too many.
    #[error("{0} paths cannot be used; take 1 to {MAX_PATHS}")]
    Count(usize),
    /// A list names a path that the set does not have.
    #[error("path {path} is unknown; the path set has paths 0 to {last}", path = path.get())]
    Unknown {
        /// The path.
        path: PathId,
        /// The highest that there is.
        last: u16,
    },
    /// A list names a path twice.
    #[error("path {path} is listed twice; list it once", path = .0.get())]
    Twice(PathId),
}

/// Where marks are missing, a round trip beyond so many of the lowest plus a slack counts as congested. Our
/// choice: many networks do not mark, and REPS and PLB know congestion by marks only. With 8 for 2, REPS
/// stays on few links once it is there (measured: 0.79 of the capacity instead of 0.99).
const LATE_ROUND_TRIPS: u64 = 2;
const LATE_SLACK_NS: u64 = 200_000;

/// Pairs that `two-choice` draws at most.
const DRAWS: u32 = 4;

/// The paths to one destination group, shared by all queue pairs that go there.
///
/// In order: `pick`, then `on_sent` for each segment of the train, then feedback. Feedback on a path that is
/// not in use any more is counted.
#[derive(Clone, Debug)]
pub struct PathSet {
    policy: LbPolicy,
    /// By path.
    pub(crate) paths: Vec<Path>,
    pub(crate) slots: Slots,
    /// The live paths by what the policy compares: their ranks, or their smoothed round-trip times in
    /// nanoseconds; empty under a policy that compares nothing.
    lowest: Lowest,
    pub(crate) probes: Probes,
    /// Whether paths that lose everything are taken out of use.
    pub(crate) has_health: bool,
    /// The most segments that a train has had.
    train: u32,
    /// The slot whose turn it is: of the next train, or where paths are measured of the next look at
    /// whether that is too long ago.
    turn: usize,
    pro: Pro,
    rng: Pcg64Mcg,
}

impl PathSet {
    /// Paths 0 to `count - 1` under a policy; `seed` makes the random ones repeatable.
    pub fn new(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, PathsError> {
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(PathsError::Count(count));
        }
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let turn = if policy == LbPolicy::Dr { rng.random_range(0..count) } else { 0 };
        let mut set = PathSet {
            policy,
            paths: vec![Path::default(); count],
            slots: Slots::new(count),
            lowest: Lowest::new(if is_filed(policy) { count } else { 0 }),
            probes: Probes::default(),
            has_health: true,
            train: 1,
            turn,
            pro: Pro::new(),
            rng,
        };
        set.refile_all();
        Ok(set)
    }

    /// No path is ever taken out of use, whatever it loses: for studies of the bare policies.
    pub fn without_health(mut self) -> Self {
        self.has_health = false;
        self.bring_all_back();
        self
    }

    /// Its policy.
    pub fn policy(&self) -> LbPolicy {
        self.policy
    }

    /// How many paths it was made with.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// How many paths are in use now; at least one.
    pub fn live(&self) -> usize {
        self.slots.len()
    }

    /// What a new outgoing stream of a queue pair starts with.
    pub fn admit(&mut self) -> QpPaths {
        let state = match self.policy {
            LbPolicy::Ecmp => State::Ecmp(Ecmp::new(self.rng.random())),
            LbPolicy::Subflow => State::Subflow(None),
            LbPolicy::Pro => State::Pro(None),
            LbPolicy::Psn => State::Psn { base: self.rng.random() },
            LbPolicy::Reps => State::Reps(None),
            LbPolicy::Plb => State::Plb(None),
            LbPolicy::RoundRobin
            | LbPolicy::Oblivious
            | LbPolicy::Dr
            | LbPolicy::MinRtt
            | LbPolicy::TwoChoice => State::Shared,
        };
        QpPaths { state }
    }

    /// An admitted stream is gone; call it once. P of PRO shrinks if it had sent anything.
    pub fn dismiss(&mut self, qp: &QpPaths) {
        if let State::Pro(Some(_)) = qp.state {
            self.pro.dismiss();
        }
    }

    /// Only these paths from now on, in this order. What is down among them stays so, unless all are.
    pub fn use_paths(&mut self, paths: &[PathId]) -> Result<(), PathsError> {
        if paths.is_empty() {
            return Err(PathsError::Count(0));
        }
        let mut listed = vec![false; self.count()];
        for path in paths {
            match listed.get_mut(index(*path)) {
                None => {
                    let last = self.count() as u16 - 1;
                    return Err(PathsError::Unknown { path: *path, last });
                }
                Some(true) => return Err(PathsError::Twice(*path)),
                Some(listed) => *listed = true,
            }
        }
        for (path, _) in self.by_path().zip(&listed).filter(|(_, listed)| !**listed) {
            self.forget_health(path);
        }
        self.slots.reorder(paths);
        if paths.iter().all(|path| self.paths[index(*path)].health.is_down()) {
            self.bring_all_back();
        } else {
            self.relist();
            self.refile_all();
        }
        Ok(())
    }

    /// A segment leaves on a path; once per segment.
    pub fn on_sent(&mut self, path: PathId, retransmission: bool) {
        self.paths[index(path)].on_sent(retransmission);
        self.refile(path);
    }

    /// The paths in use and those that have been, by number.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        let reports = self.paths.iter().zip(0..).map(|(state, path)| {
            let (path, counters) = (PathId::new(path), state.counters);
            PathReport { path, live: self.slots.is_live(path), counters }
        });
        reports.filter(|report| {
            let down = self.paths[index(report.path)].health.is_down();
            report.live || down || report.counters.sent > 0
        })
    }

    /// All paths, as a loop that changes the set needs them.
    fn by_path(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.count() as u16).map(PathId::new)
    }

    /// Makes the list of slots again after a path went down or up.
    pub(crate) fn relist(&mut self) {
        let paths = &self.paths;
        self.slots.relist(|path| paths[index(path)].health.is_down());
    }

    /// Files a path again after what its key is made of, or its being live, has changed.
    pub(crate) fn refile(&mut self, path: PathId) {
        if !is_filed(self.policy) {
            return;
        }
        let at = index(path);
        let state = &self.paths[at];
        let key = match self.is_ranked() {
            true => Some(state.rank()),
            false => state.counters.rtt.map(|rtt| nanos(rtt).min(u64::MAX - 1)),
        };
        match key.filter(|_| self.slots.is_live(path)) {
            Some(key) => self.lowest.set(at, key),
            None => self.lowest.clear(at),
        }
    }

    pub(crate) fn refile_all(&mut self) {
        self.by_path().for_each(|path| self.refile(path));
    }

    /// The lowest smoothed round-trip time of all live paths.
    pub(crate) fn lowest_rtt(&self) -> Option<Duration> {
        let live = self.by_path().filter(|path| self.slots.is_live(*path));
        live.filter_map(|path| self.paths[index(path)].counters.rtt).min()
    }

    fn is_ranked(&self) -> bool {
        is_ranked(self.policy)
    }

    fn take_turn(&mut self) -> usize {
        let turn = self.turn % self.slots.len();
        self.turn = turn + 1;
        turn
    }

    /// The path of a train under a policy that keeps nothing per queue pair.
    fn pick_shared(&mut self) -> PathId {
        match self.policy {
            LbPolicy::Oblivious => self.slots.random(&mut self.rng),
            LbPolicy::MinRtt | LbPolicy::TwoChoice => self.pick_by_rank(),
            _ => {
                let turn = self.take_turn();
                self.slots.at(turn)
            }
        }
    }

    fn pick_by_rank(&mut self) -> PathId {
        if self.policy == LbPolicy::MinRtt {
            let best =
                self.lowest.index().expect("one path is always live, and live paths have ranks");
            PathId::new(best as u16)
        } else {
            self.better_of_two()
        }
    }

    fn better_of_two(&mut self) -> PathId {
        let best = self.lowest.key().unwrap_or(u64::MAX);
        let mut path = self.draw_two();
        for _ in 1..DRAWS {
            if !is_far_worse(self.rank(path), best) {
                break;
            }
            path = self.draw_two();
        }
        path
    }

    fn draw_two(&mut self) -> PathId {
        let first = self.slots.random(&mut self.rng);
        let Some(second) = self.slots.random_beside(&[first], &mut self.rng) else { return first };
        if self.rank(second) < self.rank(first) { second } else { first }
    }

    fn rank(&self, path: PathId) -> u64 {
        self.paths[index(path)].rank()
    }

    /// Doubts a round-trip time that is too old; each pick looks at one path.
    fn doubt_one(&mut self, now: Time) {
        let turn = self.take_turn();
        let path = self.slots.at(turn);
        if self.paths[index(path)].doubt(now) {
            self.refile(path);
        }
    }

    fn on_arrival(&mut self, now: Time, path: PathId, packets: u32, rtt: Duration, marked: bool) {
        let state = &mut self.paths[index(path)];
        state.on_arrival(now, packets, rtt, marked);
        state.health.on_arrival(now);
        if state.health.is_down() {
            self.bring_back(now, path); // the losses were none
        }
        self.refile(path);
    }

    fn on_loss(&mut self, now: Time, path: PathId, packets: u32) {
        let train = self.train;
        let state = &mut self.paths[index(path)];
        state.counters.lost += u64::from(packets);
        let packets = state.health.lost_since_back(now, packets);
        state.in_flight = state.in_flight.saturating_sub(packets);
        if packets == 0 {
            return;
        }
        let rtt = state.counters.rtt;
        if self.slots.is_live(path) && state.health.on_loss(now, packets, train, rtt) {
            self.take_down(now, path);
        }
        self.refile(path);
    }

    fn on_forgotten(&mut self, path: PathId, packets: u32) {
        let state = &mut self.paths[index(path)];
        state.in_flight = state.in_flight.saturating_sub(packets);
        self.refile(path);
    }

    fn is_late(&self, rtt: Duration) -> bool {
        let lowest = self.lowest.key().unwrap_or(u64::MAX);
        nanos(rtt) > lowest.saturating_mul(LATE_ROUND_TRIPS).saturating_add(LATE_SLACK_NS)
    }
}

/// Whether the policy asks which path has the lowest key, of whatever kind.
fn is_filed(policy: LbPolicy) -> bool {
    is_ranked(policy) || matches!(policy, LbPolicy::Reps | LbPolicy::Plb)
}

fn is_ranked(policy: LbPolicy) -> bool {
    matches!(policy, LbPolicy::MinRtt | LbPolicy::TwoChoice)
}

impl Selector for PathSet {
    fn pick(&mut self, qp: &mut QpPaths, train: Train) -> PathId {
        let Train { now, psn, segments } = train;
        let segments = segments.max(1);
        self.train = self.train.max(segments);
        if self.is_ranked() {
            self.doubt_one(now);
        }
        let (slots, rng) = (&self.slots, &mut self.rng);
        match &mut qp.state {
            State::Shared => self.pick_shared(),
            State::Ecmp(flow) => flow.pick(slots),
            State::Subflow(flows) => {
                flows.get_or_insert_with(|| Subflows::new(slots, rng)).pick(slots, rng)
            }
            State::Pro(turn) => slots.at(self.pro.pick(turn, slots.len(), segments)),
            State::Psn { base } => slots.at(slot_of_psn(psn, segments, *base, slots)),
            State::Reps(ring) => ring
                .get_or_insert_with(|| Box::new(Ring::new(slots.len())))
                .pick(slots, segments, rng),
            State::Plb(plb) => {
                plb.get_or_insert_with(|| Box::new(Plb::new(slots, rng))).pick(now, slots, rng)
            }
        }
    }

    fn on_feedback(&mut self, qp: &mut QpPaths, now: Time, path: PathId, outcome: Outcome) {
        if index(path) >= self.count() {
            return;
        }
        if let State::Reps(Some(ring)) = &mut qp.state {
            ring.on_feedback(now, &self.slots);
        }
        let (packets, rtt, marked) = match outcome {
            Outcome::Lost { packets } => return self.on_loss(now, path, packets),
            Outcome::Forgotten { packets } => return self.on_forgotten(path, packets),
            Outcome::Arrived { packets, rtt, congested } => (packets, rtt, congested),
        };
        self.on_arrival(now, path, packets, rtt, marked);
        match &mut qp.state {
            State::Reps(Some(ring)) if !marked && !self.is_late(rtt) => {
                ring.on_clean(path, packets);
            }
            State::Plb(Some(plb)) => {
                plb.on_arrival(now, path, packets, rtt, marked || self.is_late(rtt));
            }
            _ => {}
        }
    }

    fn on_timeout(&mut self, qp: &mut QpPaths, now: Time) {
        match &mut qp.state {
            State::Reps(Some(ring)) => ring.on_timeout(now),
            State::Plb(Some(plb)) => plb.on_timeout(now, &self.slots, &mut self.rng),
            _ => {}
        }
    }
}
