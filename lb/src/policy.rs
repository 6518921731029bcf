//! What a path policy is, and how it is named.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::str::FromStr;

use braid_wire::{PathId, Time};

use crate::{Batch, Outcome, PathRng, Paths, StreamId};

/// Picks the path of each batch, and learns from what became of it. One is made for each path set.
///
/// Time and randomness are arguments, so that a seed repeats a run. Apart from [`PathPolicy::pick`] everything may be left
/// out. What it needs per stream it keeps itself, as a rule in a [`PerStream`](crate::PerStream). All but `admit` and
/// `dismiss` are called while packets are sent: nothing there should allocate, block or log.
pub trait PathPolicy: fmt::Debug + Send {
    /// A stream joins: before anything else is said of it. Most streams of responses never pick.
    fn admit(&mut self, stream: StreamId, rng: &mut PathRng) {
        let _ = (stream, rng);
    }

    /// A stream is gone. Its number may be admitted again.
    fn dismiss(&mut self, stream: StreamId) {
        let _ = stream;
    }

    /// The path of the stream's next batch: a live one. In the place of one that is not, the path set takes one that is.
    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, rng: &mut PathRng) -> PathId;

    /// The most segments that the batch just picked for may have, those of other streams that join it included, where its
    /// path is to carry less than others.
    fn most_segments(&self) -> Option<NonZeroU32> {
        None
    }

    /// What became of packets that the stream sent on `path`, which the path set has; `paths` has taken it into account.
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

    /// A retransmission time-out of the stream: nothing that was in flight has been heard of.
    fn on_timeout(&mut self, stream: StreamId, now: Time, paths: &Paths, rng: &mut PathRng) {
        let _ = (stream, now, paths, rng);
    }
}

/// Makes a path policy: what [`LbPolicy`] names.
pub trait PathPolicyFactory: Send + Sync {
    /// The name, as users type it: what reports show, and what policies are told apart by.
    fn name(&self) -> &str;

    /// What the policy wants from those who run it. They ask once.
    fn requirements(&self) -> Requirements {
        Requirements::default()
    }

    /// A policy for these paths, which are new and all live.
    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy>;
}

/// What a policy wants from the path set and the protocol that run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// What the path set keeps the live paths ordered by.
    pub order: Order,
    /// Whether a batch may as well take the path that was just picked for a batch of another queue pair: no path is a
    /// queue pair's own, none follows from what is sent, and the policy does not count what is on each path.
    pub shares_batches: bool,
    /// How many quanta a sender's window is to hold, at least 1: a path is picked for one quantum, which is one batch or
    /// more.
    ///
    /// Few where nothing is learnt from them: a quantum that fills the driver's batches costs the fewest calls. A
    /// policy that judges paths by what comes back wants many small ones, as its source judges packets: with
    /// 8 on four links, one of them at a tenth of its rate, REPS kept half of the window on the slow link
    /// (0.70 of the capacity instead of 0.95).
    pub quanta: u64,
}

impl Default for Requirements {
    /// For a policy that compares no paths: no order, batches of its own, 8 quanta.
    fn default() -> Self {
        Requirements { order: Order::None, shares_batches: false, quanta: 8 }
    }
}

/// What live paths can be ordered by, at a cost that is logarithmic in their number for each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Nothing.
    None,
    /// Their ranks ([`Paths::rank`]): for [`Paths::best`] and [`Paths::lowest_rank`]. A round-trip time that is not renewed
    /// loses weight.
    Rank,
    /// Their smoothed round-trip times: for [`Paths::is_late`].
    Rtt,
}

/// Names a path policy: one of the table ([`LbPolicy::ALL`]), or one that a program brings along.
///
/// It refers to a factory that lives as long as the program, so it is a plain value in every configuration. A factory whose
/// parameters are known only at run time is leaked once, with [`Box::leak`]. Two are equal if they have the same name.
///
/// ```
/// use braid_lb::LbPolicy;
///
/// let policy: LbPolicy = "pro".parse().unwrap();
/// assert_eq!(policy, LbPolicy::PRO);
/// let unknown = "spray".parse::<LbPolicy>().unwrap_err();
/// assert!(unknown.to_string().contains("there is: "), "{unknown}"); // and names them
/// ```
#[derive(Clone, Copy)]
pub struct LbPolicy(&'static dyn PathPolicyFactory);

impl LbPolicy {
    /// A policy of the program's own. It is not found by its name; give it one that the table does not have.
    pub const fn custom(factory: &'static dyn PathPolicyFactory) -> Self {
        LbPolicy(factory)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What makes it.
    pub(crate) fn factory(self) -> &'static dyn PathPolicyFactory {
        self.0
    }
}

impl Default for LbPolicy {
    /// [`LbPolicy::ADAPTIVE`]: [`LbPolicy::PRO`] as long as the paths are equal.
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

/// The names of the table.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    LbPolicy::ALL.into_iter().map(LbPolicy::name)
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no path policy is called `{0}`; there is: {names}", names = policy_names().collect::<Vec<_>>().join(", "))]
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
        assert_eq!(error, format!("no path policy is called `spray`; there is: {names}"));
    }
}
