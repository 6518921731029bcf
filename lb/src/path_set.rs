//! The paths to one destination group, and the policy that chooses among them.

use std::time::Duration;

use braid_wire::{MAX_PATHS, PathId, Time};
use rand::SeedableRng;

use crate::health::Probes;
use crate::slots::index;
use crate::stream::StreamIds;
use crate::{
    Batch, LbPolicy, Outcome, PathPolicy, PathReport, PathRng, Paths, Requirements, StreamId,
};

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

/// The paths to one destination group, shared by all queue pairs that go there.
///
/// In order: `pick`, then `on_sent` for each segment of the batch, then feedback. Feedback on a path that is
/// not in use any more is counted.
#[derive(Debug)]
pub struct PathSet {
    name: LbPolicy,
    requirements: Requirements,
    policy: Box<dyn PathPolicy>,
    pub(crate) paths: Paths,
    streams: StreamIds,
    pub(crate) probes: Probes,
    /// Whether paths that lose everything are taken out of use.
    pub(crate) has_health: bool,
    /// The most segments that a batch has had.
    batch: u32,
    rng: PathRng,
}

impl PathSet {
    /// Paths 0 to `count - 1` under a policy; `seed` makes the random ones repeatable.
    ///
    /// # Errors
    ///
    /// There are too few or too many paths.
    pub fn new(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, PathsError> {
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(PathsError::Count(count));
        }
        let mut rng = PathRng::seed_from_u64(seed);
        let factory = policy.factory();
        let wanted = factory.requirements();
        let requirements = Requirements { quanta: wanted.quanta.max(1), ..wanted };
        let paths = Paths::new(count, requirements.order);
        Ok(PathSet {
            name: policy,
            requirements,
            policy: factory.build(&paths, &mut rng),
            paths,
            streams: StreamIds::default(),
            probes: Probes::default(),
            has_health: true,
            batch: 1,
            rng,
        })
    }

    /// No path is ever taken out of use, whatever it loses: for studies of the bare policies.
    pub fn without_health(mut self) -> Self {
        self.has_health = false;
        self.bring_all_back();
        self
    }

    /// The name of its policy.
    pub fn policy(&self) -> LbPolicy {
        self.name
    }

    /// What its policy wants; asked for each segment.
    #[inline]
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// How many paths it was made with.
    pub fn count(&self) -> usize {
        self.paths.states.len()
    }

    /// How many paths are in use now; at least one.
    pub fn live(&self) -> usize {
        self.paths.len()
    }

    /// A new outgoing stream of a queue pair: what it is called from now on.
    pub fn admit(&mut self) -> StreamId {
        let stream = self.streams.take();
        self.policy.admit(stream, &mut self.rng);
        stream
    }

    /// An admitted stream is gone; call it once, and nothing that names it afterwards.
    pub fn dismiss(&mut self, stream: StreamId) {
        self.policy.dismiss(stream);
        self.streams.give_back(stream);
    }

    /// The path of a stream's next batch: one that is in use and not known to be dead.
    pub fn pick(&mut self, stream: StreamId, batch: Batch) -> PathId {
        let batch = Batch { segments: batch.segments.max(1), ..batch };
        self.batch = self.batch.max(batch.segments);
        self.paths.doubt_one(batch.now);
        let path = self.policy.pick(stream, batch, &self.paths, &mut self.rng);
        if self.paths.is_live(path) { path } else { self.paths.at(index(path)) }
    }

    /// What became of packets that a stream sent on `path`. A path that does not exist is ignored: the
    /// name may be an echo from the network.
    pub fn on_feedback(&mut self, stream: StreamId, now: Time, path: PathId, outcome: Outcome) {
        if index(path) >= self.count() {
            return;
        }
        match outcome {
            Outcome::Arrived { packets, rtt, congested } => {
                self.on_arrival(now, path, packets, rtt, congested);
            }
            Outcome::Lost { packets } => self.on_loss(now, path, packets),
            Outcome::Forgotten { packets } => self.on_forgotten(path, packets),
        }
        self.policy.on_feedback(stream, now, path, &outcome, &self.paths);
    }

    /// A retransmission time-out of this stream: nothing that was in flight has been heard of.
    pub fn on_timeout(&mut self, stream: StreamId, now: Time) {
        self.policy.on_timeout(stream, now, &self.paths, &mut self.rng);
    }

    /// Only these paths from now on, in this order. What is down among them stays so, unless all are.
    ///
    /// # Errors
    ///
    /// The list is empty, or names a path that there is not, or one twice. Nothing has changed then.
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
        for (path, _) in self.paths.by_number().zip(&listed).filter(|(_, listed)| !**listed) {
            self.forget_health(path);
        }
        self.paths.slots.reorder(paths);
        if paths.iter().all(|path| self.paths.states[index(*path)].health.is_down()) {
            self.bring_all_back();
        } else {
            self.paths.relist();
            self.paths.refile_all();
        }
        Ok(())
    }

    /// A segment leaves on a path; once per segment.
    #[inline]
    pub fn on_sent(&mut self, path: PathId, retransmission: bool) {
        self.paths.states[index(path)].on_sent(retransmission);
        self.paths.refile(path);
    }

    /// The paths in use and those that have been, by number.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        let reports = self.paths.states.iter().zip(0..).map(|(state, path)| {
            let (path, counters) = (PathId::new(path), state.counters());
            PathReport { path, live: self.paths.slots.is_live(path), counters }
        });
        reports.filter(|report| {
            let down = self.paths.states[index(report.path)].health.is_down();
            report.live || down || report.counters.sent > 0
        })
    }

    fn on_arrival(&mut self, now: Time, path: PathId, packets: u32, rtt: Duration, marked: bool) {
        let state = &mut self.paths.states[index(path)];
        state.on_arrival(now, packets, rtt, marked);
        state.health.on_arrival(now);
        if state.health.is_down() {
            self.bring_back(now, path); // the losses were none
        }
        self.paths.refile(path);
    }

    fn on_loss(&mut self, now: Time, path: PathId, packets: u32) {
        let batch = self.batch;
        let state = &mut self.paths.states[index(path)];
        state.counts.lost += u64::from(packets);
        let packets = state.health.lost_since_back(now, packets);
        state.in_flight = state.in_flight.saturating_sub(packets);
        if packets == 0 {
            return;
        }
        let rtt = state.rtt();
        if self.paths.slots.is_live(path) && state.health.on_loss(now, packets, batch, rtt) {
            self.take_down(now, path);
        }
        self.paths.refile(path);
    }

    fn on_forgotten(&mut self, path: PathId, packets: u32) {
        let state = &mut self.paths.states[index(path)];
        state.in_flight = state.in_flight.saturating_sub(packets);
        self.paths.refile(path);
    }
}
