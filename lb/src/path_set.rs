//! A path set: the paths to one destination group and the policy that picks among them.

use std::num::NonZeroU32;

use braid_wire::{MAX_PATHS, PathId, Time};

use crate::slots::index;
use crate::states::States;
use crate::stream::StreamIds;
use crate::{
    Batch, LbPolicy, Outcome, PathPolicy, PathReport, PathRng, Paths, Requirements, StreamId,
};

/// Invalid paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// The number of paths is 0 or too large.
    #[error("invalid number of paths {0}; use 1 to {MAX_PATHS}")]
    Count(usize),
    /// A list contains a path that the set does not have.
    #[error("path {path} is unknown; the path set has paths 0 to {last}", path = path.get())]
    Unknown {
        /// The path.
        path: PathId,
        /// The highest path number.
        last: u16,
    },
    /// A list contains a path twice.
    #[error("path {path} is listed twice; list it once", path = .0.get())]
    Twice(PathId),
}

/// The paths to one destination group, shared by all queue pairs that send to it.
///
/// The caller invokes `pick`, then `on_sent` for each segment of the batch, then `on_feedback`.
/// Feedback on a path that is no longer in use is still counted.
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
    /// Number of paths to a destination on each rail, unless the user gives another.
    pub const DEFAULT_PATHS: usize = 16;

    /// Creates paths 0 to `count - 1` under a policy. `seed` determines all random numbers.
    ///
    /// # Errors
    ///
    /// If `count` is 0 or too large.
    pub fn new(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, PathsError> {
        Self::make(policy, count, seed, States::all)
    }

    /// Creates a set that allocates the state of a path at its first use, for simulations with many
    /// large sets.
    ///
    /// # Errors
    ///
    /// See [`PathSet::new`].
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

    /// Disables health: no path goes down, whatever it loses. For studies of the bare policies.
    pub fn without_health(mut self) -> Self {
        self.paths.ignore_health();
        self
    }

    /// Returns the policy.
    pub fn policy(&self) -> LbPolicy {
        self.name
    }

    /// Returns the requirements of the policy. Called for each segment.
    #[inline]
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Returns the total number of paths.
    pub fn count(&self) -> usize {
        self.paths.states.count()
    }

    /// Returns the number of live paths, at least one.
    pub fn live(&self) -> usize {
        self.paths.len()
    }

    /// Adds an outgoing stream of a queue pair and returns its id.
    pub fn admit(&mut self) -> StreamId {
        let stream = self.streams.take();
        self.policy.admit(stream, &mut self.rng);
        stream
    }

    /// Removes a stream. The caller must not use its id afterwards.
    pub fn dismiss(&mut self, stream: StreamId) {
        self.policy.dismiss(stream);
        self.streams.give_back(stream);
    }

    /// Returns a live path for a stream's next batch.
    pub fn pick(&mut self, stream: StreamId, batch: Batch) -> PathId {
        let batch = Batch { segments: batch.segments.max(1), ..batch };
        self.paths.on_pick(batch);
        let path = self.policy.pick(stream, batch, &self.paths, &mut self.rng);
        if self.paths.is_live(path) { path } else { self.paths.at(index(path)) }
    }

    /// Returns a random live path for a batch that tests whether any path works. If
    /// health is disabled, the policy picks the path.
    ///
    /// A fixed rotation could stay in step with that of other segments, so that one segment would
    /// never reach a working path.
    pub fn pick_any(&mut self, stream: StreamId, batch: Batch) -> PathId {
        if !self.paths.has_health {
            return self.pick(stream, batch);
        }
        self.paths.on_pick(batch);
        self.random()
    }

    /// Returns the live path of the latest packet that has arrived, for a batch that tests whether
    /// any path works. Like [`PathSet::pick_any`] if nothing has arrived or health is disabled.
    pub fn pick_proved(&mut self, stream: StreamId, batch: Batch) -> PathId {
        match self.paths.last_proved().filter(|_| self.paths.has_health) {
            Some(path) => {
                self.paths.on_pick(batch);
                path
            }
            None => self.pick_any(stream, batch),
        }
    }

    /// Returns a random live path.
    pub(crate) fn random(&mut self) -> PathId {
        self.paths.random(&mut self.rng)
    }

    /// Returns the maximum number of segments of the batch just picked for, including joining
    /// batches of other queue pairs, if its path must carry less than others.
    #[inline]
    pub fn most_segments(&self) -> Option<NonZeroU32> {
        self.policy.most_segments()
    }

    /// See [`PathPolicy::foresee`].
    #[inline]
    pub(crate) fn foresee(&self) -> Option<PathId> {
        self.policy.foresee(&self.paths, &self.rng)
    }

    /// See [`crate::Rails::state_of`].
    #[inline]
    pub(crate) fn state_of(&self, path: PathId, visit: impl FnMut(*const u8, usize)) {
        if index(path) < self.count() {
            self.paths.states.place(path, visit);
        }
    }

    /// Processes feedback on packets that a stream sent on `path`. Ignores a path that does not
    /// exist, because the number may come from the network.
    pub fn on_feedback(&mut self, stream: StreamId, now: Time, path: PathId, outcome: Outcome) {
        if index(path) >= self.count() {
            return;
        }
        self.paths.on_feedback(now, path, &outcome);
        self.policy.on_feedback(stream, now, path, &outcome, &self.paths);
    }

    /// Processes a retransmission time-out of a stream: no feedback arrived for any packet in
    /// flight.
    pub fn on_timeout(&mut self, stream: StreamId, now: Time) {
        self.policy.on_timeout(stream, now, &self.paths, &mut self.rng);
    }

    /// Limits the set to these paths in this order. A path that is down stays down, unless all of
    /// them are.
    ///
    /// # Errors
    ///
    /// If the list is empty, contains an unknown path, or contains a path twice. The set is then
    /// unchanged.
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

    /// Records `packets` segments that are sent on a path.
    #[inline]
    pub fn on_sent(&mut self, path: PathId, packets: u32, retransmission: bool) {
        self.paths.on_sent(path, packets, retransmission);
    }

    /// Returns the paths that are or were in use, by number.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        self.paths.reports()
    }

    /// Returns a path that is down and due for a probe. The caller sends a PING with the stamp
    /// `now.stamp()` on it and calls again until the result is `None`.
    ///
    /// The probe counts as sent. Its stamp identifies it, so no other PING may carry that stamp.
    pub fn poll_probe(&mut self, now: Time) -> Option<PathId> {
        self.paths.poll_probe(now)
    }

    /// Processes a PONG that echoes `stamp`. Returns whether it answers the latest probe of a path,
    /// which is then live again.
    pub fn on_probe_answer(&mut self, now: Time, stamp: u32) -> bool {
        self.paths.on_probe_answer(now, stamp)
    }

    /// Returns the time at which [`PathSet::poll_probe`] next returns a path.
    #[inline]
    pub fn next_probe(&self) -> Option<Time> {
        self.paths.next_probe()
    }
}
