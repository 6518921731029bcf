//! Which path the next train takes: pure policies over a set of paths to one destination group.
#![forbid(unsafe_code)]

use std::str::FromStr;
use std::time::Duration;

use braid_wire::{MAX_PATHS, PathId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Names a path policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LbPolicy {
    /// One path per queue pair, by hash: what a switch does with an ordinary connection.
    Ecmp,
    /// The paths in turn; the turn is shared by all queue pairs of the path set.
    #[default]
    RoundRobin,
    /// A random path for every train.
    Oblivious,
}

/// The policies and their names, as users type them.
const POLICIES: &[(&str, LbPolicy)] = &[
    ("ecmp", LbPolicy::Ecmp),
    ("round-robin", LbPolicy::RoundRobin),
    ("oblivious", LbPolicy::Oblivious),
];

/// The policies' names.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no path policy is called `{0}`; there is: {names}", names = policy_names().collect::<Vec<_>>().join(", "))]
pub struct UnknownPolicy(pub String);

impl FromStr for LbPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = POLICIES.iter().find(|(known, _)| *known == name);
        known.map(|(_, policy)| *policy).ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// A number of paths that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} paths cannot be used; take 1 to {MAX_PATHS}")]
pub struct BadPathCount(pub usize);

/// What a policy keeps per queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpPaths {
    /// Where [`LbPolicy::Ecmp`] hashed it.
    hash: u64,
}

/// Picks paths and learns from what became of them.
pub trait Selector {
    /// The path for a train of `segments` segments of one queue pair.
    fn pick(&mut self, qp: &mut QpPaths, segments: u32) -> PathId;

    /// What became of a packet: the round-trip time, whether it met congestion, or whether it was lost.
    fn on_feedback(&mut self, path: PathId, outcome: Outcome);
}

/// What became of a packet on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It arrived.
    Arrived {
        /// Round-trip time.
        rtt: Duration,
        /// It, or one before it since the last feedback, carried a congestion mark.
        congested: bool,
    },
    /// It did not.
    Lost,
}

/// The paths to one destination group, shared by all queue pairs that go there.
#[derive(Clone, Debug)]
pub struct PathSet {
    policy: LbPolicy,
    count: u16,
    /// The turn of [`LbPolicy::RoundRobin`].
    next: u16,
    rng: Pcg64Mcg,
}

impl PathSet {
    /// Paths 0 to `count - 1` under a policy; `seed` makes the random ones repeatable.
    pub fn new(policy: LbPolicy, count: usize, seed: u64) -> Result<Self, BadPathCount> {
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(BadPathCount(count));
        }
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Ok(PathSet { policy, count: count as u16, next: 0, rng })
    }

    /// How many paths there are.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// What a new queue pair starts with.
    pub fn admit(&mut self) -> QpPaths {
        QpPaths { hash: self.rng.random() }
    }

    fn take_turn(&mut self) -> u16 {
        let turn = self.next;
        self.next = (turn + 1) % self.count;
        turn
    }
}

impl Selector for PathSet {
    fn pick(&mut self, qp: &mut QpPaths, _segments: u32) -> PathId {
        PathId::new(match self.policy {
            LbPolicy::Ecmp => (qp.hash % u64::from(self.count)) as u16,
            LbPolicy::RoundRobin => self.take_turn(),
            LbPolicy::Oblivious => self.rng.random_range(0..self.count),
        })
    }

    fn on_feedback(&mut self, _: PathId, _: Outcome) {
        // None of the three policies above learns.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(policy: LbPolicy, paths: usize, n: usize) -> Vec<u16> {
        let mut set = PathSet::new(policy, paths, 1).unwrap();
        let mut qp = set.admit();
        (0..n).map(|_| set.pick(&mut qp, 1).get()).collect()
    }

    #[test]
    fn ecmp_keeps_to_one_path() {
        let taken = picks(LbPolicy::Ecmp, 64, 100);
        assert!(taken.iter().all(|path| *path == taken[0]));
    }

    #[test]
    fn round_robin_takes_every_path_in_turn() {
        assert_eq!(picks(LbPolicy::RoundRobin, 3, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn round_robin_shares_its_turn_between_queue_pairs() {
        let mut set = PathSet::new(LbPolicy::RoundRobin, 4, 1).unwrap();
        let (mut a, mut b) = (set.admit(), set.admit());
        let taken = [set.pick(&mut a, 1), set.pick(&mut b, 1), set.pick(&mut a, 1)];
        assert_eq!(taken.map(PathId::get), [0, 1, 2]);
    }

    #[test]
    fn oblivious_reaches_every_path_and_repeats_with_its_seed() {
        let taken = picks(LbPolicy::Oblivious, 8, 200);
        assert!((0..8).all(|path| taken.contains(&path)));
        assert_eq!(taken, picks(LbPolicy::Oblivious, 8, 200));
    }

    #[test]
    fn refuses_what_cannot_be() {
        assert_eq!(PathSet::new(LbPolicy::Ecmp, 0, 1).unwrap_err(), BadPathCount(0));
        assert_eq!(PathSet::new(LbPolicy::Ecmp, 5000, 1).unwrap_err(), BadPathCount(5000));
        let error = "spray".parse::<LbPolicy>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no path policy is called `spray`; there is: ecmp, round-robin, oblivious"
        );
    }
}
