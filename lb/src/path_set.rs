//! The paths to one destination group, and the policy that chooses among them.

use std::num::NonZeroU32;

use braid_wire::{MAX_PATHS, PathId, Time};

use crate::slots::index;
use crate::states::States;
use crate::stream::StreamIds;
use crate::{
    Batch, LbPolicy, Outcome, PathPolicy, PathReport, PathRng, Paths, Requirements, StreamId,
};

/// Paths that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
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
    rng: PathRng,
}

impl PathSet {
    /// Paths 0 to `count - 1` under a policy; `seed` makes the random ones repeatable.
    ///
    /// # Errors
    ///
    /// There are too few or too many paths.
    pub fn new(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, PathsError> {
        Self::make(policy, count, seed, States::all)
    }

    /// The same, but what is known of a path takes memory from its first use on: where sets are many and have many paths each,
    /// as in a simulation. The first use of a path allocates.
    ///
    /// # Errors
    ///
    /// As [`PathSet::new`].
    pub fn growing(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, PathsError> {
        Self::make(policy, count, seed, States::used)
    }

    fn make(
        policy: LbPolicy,
        count: usize,
        seed: u64,
        states: fn(usize) -> States,
    ) -> Result<Self, PathsError> {
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(PathsError::Count(count));
        }
        let mut rng = PathRng::from_seed(seed);
        let factory = policy.factory();
        let wanted = factory.requirements();
        let requirements = Requirements { quanta: wanted.quanta.max(1), ..wanted };
        let paths = Paths::new(states(count), requirements.order);
        Ok(PathSet {
            name: policy,
            requirements,
            policy: factory.build(&paths, &mut rng),
            paths,
            streams: StreamIds::default(),
            rng,
        })
    }

    /// No path is ever taken out of use, whatever it loses: for studies of the bare policies.
    pub fn without_health(mut self) -> Self {
        self.paths.ignore_health();
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
        self.paths.states.count()
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
        self.paths.on_pick(batch);
        let path = self.policy.pick(stream, batch, &self.paths, &mut self.rng);
        if self.paths.is_live(path) { path } else { self.paths.at(index(path)) }
    }

    /// The path of a batch that is to find out whether any path works: a random one of those in
    /// use, unless health is ignored. Turns could keep step with those of other segments, so that
    /// one segment would never reach a path that works.
    pub fn pick_any(&mut self, stream: StreamId, batch: Batch) -> PathId {
        if !self.paths.has_health {
            return self.pick(stream, batch);
        }
        self.paths.on_pick(batch);
        self.random()
    }

    /// A random path that is in use.
    pub(crate) fn random(&mut self) -> PathId {
        self.paths.random(&mut self.rng)
    }

    /// The most segments that the batch just picked for may have, those of other queue pairs that join it included, where
    /// its path is to carry less than others.
    #[inline]
    pub fn most_segments(&self) -> Option<NonZeroU32> {
        self.policy.most_segments()
    }

    /// What became of packets that a stream sent on `path`. A path that does not exist is ignored: the
    /// name may be an echo from the network.
    pub fn on_feedback(&mut self, stream: StreamId, now: Time, path: PathId, outcome: Outcome) {
        if index(path) >= self.count() {
            return;
        }
        self.paths.on_feedback(now, path, &outcome);
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
            self.paths.forget_health(path);
        }
        self.paths.use_only(paths);
        Ok(())
    }

    /// A segment leaves on a path; once per segment.
    #[inline]
    pub fn on_sent(&mut self, path: PathId, retransmission: bool) {
        self.paths.on_sent(path, retransmission);
    }

    /// The paths in use and those that have been, by number.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        self.paths.reports()
    }

    /// A path that is out of use and due for a probe: send a PING with the stamp `now.stamp()` on it. Call until
    /// `None`. The probe counts as sent.
    ///
    /// Its stamp is the probe's name: no other PING may carry it, or its answer passes for the probe's.
    pub fn poll_probe(&mut self, now: Time) -> Option<PathId> {
        self.paths.poll_probe(now)
    }

    /// A PONG echoes `stamp`. True: it answers the latest probe of a path, which is back in its place.
    pub fn on_probe_answer(&mut self, now: Time, stamp: u32) -> bool {
        self.paths.on_probe_answer(now, stamp)
    }

    /// When [`PathSet::poll_probe`] next has something.
    #[inline]
    pub fn next_probe(&self) -> Option<Time> {
        self.paths.next_probe()
    }
}
