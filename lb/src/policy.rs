//! The interface of path policies and their names.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::str::FromStr;

use braid_wire::{PathId, Time};

use crate::{Batch, Order, Outcome, PathRng, Paths, StreamId};

/// A path policy: picks the path of each batch and learns from the feedback. Each path set has its
/// own instance.
///
/// Time and randomness are arguments, so that a seed reproduces a run. All methods but
/// [`PathPolicy::pick`] are optional. A policy stores its own state per stream, usually in a
/// [`PerStream`](crate::PerStream). All methods but `admit` and `dismiss` run on the hot path and
/// must not allocate, block or log.
pub trait PathPolicy: fmt::Debug + Send {
    /// Adds a stream before its first batch. Most response streams never pick a path.
    fn admit(&mut self, stream: StreamId, rng: &mut PathRng) {
        let _ = (stream, rng);
    }

    /// Removes a stream, whose number may be reused.
    fn dismiss(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// Returns a live path for the stream's next batch. The path set replaces a path that is not
    /// live.
    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, rng: &mut PathRng) -> PathId;

    /// Returns the path that the next pick returns for any stream, if that is certain. Drivers with
    /// many path sets prefetch its state. Nothing else depends on this.
    fn foresee(&self, paths: &Paths, rng: &PathRng) -> Option<PathId> {
        let _ = (paths, rng);
        None
    }

    /// Returns the maximum number of segments of the batch just picked for, including joining
    /// batches of other streams, if its path must carry less than others.
    fn most_segments(&self) -> Option<NonZeroU32> {
        None
    }

    /// Processes feedback on packets that the stream sent on `path`, which exists. `paths` already
    /// includes the feedback.
    fn on_feedback(
        &mut self,
        stream: StreamId,
        now: Time,
        path: PathId,
        outcome: &Outcome,
        paths: &Paths,
    ) {
        let _ = (stream, now, path, outcome, paths);
    }

    /// Processes a retransmission time-out of the stream: no feedback arrived for any packet in
    /// flight.
    fn on_timeout(&mut self, stream: StreamId, now: Time, paths: &Paths, rng: &mut PathRng) {
        let _ = (stream, now, paths, rng);
    }
}

/// Creates the path policy that an [`LbPolicy`] names.
pub trait PathPolicyFactory: Send + Sync {
    /// Returns the unique name, as users type it and reports show it.
    fn name(&self) -> &str;

    /// Returns the policy's requirements. The caller asks once.
    fn requirements(&self) -> Requirements {
        Requirements::default()
    }

    /// Creates a policy for new paths, which are all live.
    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy>;
}

/// The requirements of a policy on its path set and on the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// The order in which the path set keeps the live paths.
    pub order: Order,
    /// Whether a batch may use the path just picked for a batch of another queue pair. The policy
    /// must not assign paths to queue pairs, derive paths from the data, or count the load of
    /// paths.
    pub shares_batches: bool,
    /// Number of quanta that a sender's window should hold, at least 1. A path is picked per
    /// quantum, which is one or more batches.
    ///
    /// A policy that ignores feedback wants few quanta, because large batches cost the fewest
    /// calls. A policy that judges paths by feedback wants many small ones, as its source judges
    /// packets. A measurement with REPS on four links, one of them at a tenth of its rate: with 8
    /// quanta, half of the window stayed on the slow link. The throughput was 0.70 of the capacity
    /// instead of 0.95.
    pub quanta: u64,
    /// Maximum number of packets in a quantum, at least 1, unless the user gives another. `None`:
    /// one batch.
    ///
    /// For a policy whose queues are bounded because it picks a path for each packet. Short quanta
    /// cost a call each.
    pub quantum: Option<u32>,
}

impl Default for Requirements {
    /// The requirements of a policy that does not compare paths: no order, separate batches, 8
    /// quanta of a batch.
    fn default() -> Self {
        Requirements { order: Order::None, shares_batches: false, quanta: 8, quantum: None }
    }
}

/// A path policy: one of the table ([`LbPolicy::ALL`]) or one of the program.
///
/// The value refers to a factory with a static lifetime, so configurations can copy it. A program
/// that knows the parameters of a factory only at run time leaks it once with [`Box::leak`]. Two
/// values with the same name are equal.
///
/// ```
/// use braid_lb::LbPolicy;
///
/// let policy: LbPolicy = "pro".parse().unwrap();
/// assert_eq!(policy, LbPolicy::PRO);
/// let unknown = "spray".parse::<LbPolicy>().unwrap_err();
/// assert!(unknown.to_string().contains("available: "), "{unknown}");
/// ```
#[derive(Clone, Copy)]
pub struct LbPolicy(&'static dyn PathPolicyFactory);

impl LbPolicy {
    /// Creates a policy of the program. Parsing does not find it, so its name must differ from
    /// those of the table.
    pub const fn custom(factory: &'static dyn PathPolicyFactory) -> Self {
        LbPolicy(factory)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the maximum number of packets for which a path is picked: `given` by the user, or
    /// [`Requirements::quantum`]. `None`: one batch.
    pub fn quantum(self, given: Option<u32>) -> Option<u32> {
        given.or_else(|| self.0.requirements().quantum.map(|packets| packets.max(1)))
    }

    /// Returns the factory.
    pub(crate) fn factory(self) -> &'static dyn PathPolicyFactory {
        self.0
    }
}

impl Default for LbPolicy {
    /// [`LbPolicy::ADAPTIVE`], which equals [`LbPolicy::PRO`] while the paths are equal.
    fn default() -> Self {
        LbPolicy::ADAPTIVE
    }
}

impl PartialEq for LbPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for LbPolicy {}

impl Hash for LbPolicy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for LbPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for LbPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the names of the table.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    LbPolicy::ALL.into_iter().map(LbPolicy::name)
}

/// An unknown policy name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown path policy `{0}`; available: {names}", names = policy_names().collect::<Vec<_>>().join(", "))]
pub struct UnknownPolicy(pub String);

impl FromStr for LbPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = LbPolicy::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_policy_has_a_name_of_its_own_that_leads_back_to_it() {
        let distinct: HashSet<&str> = policy_names().collect();
        assert_eq!(distinct.len(), LbPolicy::ALL.len());
        for policy in LbPolicy::ALL {
            let found: LbPolicy = policy.to_string().parse().unwrap();
            assert_eq!(found.name(), policy.name());
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "spray".parse::<LbPolicy>().unwrap_err().to_string();
        let names = policy_names().collect::<Vec<_>>().join(", ");
        assert_eq!(error, format!("unknown path policy `spray`; available: {names}"));
    }
}
