//! The policies by name.

use std::fmt;
use std::str::FromStr;

/// Names a path policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LbPolicy {
    /// One path per queue pair, by hash: what a switch does with an ordinary connection.
    Ecmp,
    /// Four random paths per queue pair, in turn.
    Subflow,
    /// The paths in turn; the turn is shared by all queue pairs of the path set.
    RoundRobin,
    /// A random path for every train.
    Oblivious,
    /// Orchestrated round robin (PRO, Alg. 1, with its batch form): every queue pair goes round all paths,
    /// staggered against the others.
    #[default]
    Pro,
    /// The path follows from the packet sequence number (Themis, Eq. 1).
    Psn,
    /// Destination rotation in its host form (OFAN, section 6.1): one pointer per destination, from a random
    /// start.
    Dr,
    /// Recycled entropies: paths whose packets came back unmarked are used again (REPS).
    Reps,
    /// One path per queue pair, exchanged when it stays congested (PLB, as in Linux).
    Plb,
    /// The path with the lowest smoothed round-trip time that has window (MPTCP's default).
    MinRtt,
    /// The better of two random paths (UCCL).
    TwoChoice,
}

/// The policies and their names, as users type them.
const POLICIES: [(&str, LbPolicy); 11] = [
    ("ecmp", LbPolicy::Ecmp),
    ("subflow", LbPolicy::Subflow),
    ("round-robin", LbPolicy::RoundRobin),
    ("oblivious", LbPolicy::Oblivious),
    ("pro", LbPolicy::Pro),
    ("psn", LbPolicy::Psn),
    ("dr", LbPolicy::Dr),
    ("reps", LbPolicy::Reps),
    ("plb", LbPolicy::Plb),
    ("min-rtt", LbPolicy::MinRtt),
    ("two-choice", LbPolicy::TwoChoice),
];

/// The policies' names.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

impl LbPolicy {
    /// Whether a train may as well take the path that was just picked for a train of another queue pair: no path is a
    /// queue pair's own, and none follows from what is sent.
    pub const fn takes_any_path(self) -> bool {
        use LbPolicy::{
            Dr, Ecmp, MinRtt, Oblivious, Plb, Pro, Psn, Reps, RoundRobin, Subflow, TwoChoice,
        };
        match self {
            RoundRobin | Oblivious | Pro | Dr | TwoChoice => true,
            // `MinRtt` counts what is on each path.
            Ecmp | Subflow | Psn | Reps | Plb | MinRtt => false,
        }
    }

    /// Every policy, in the order of [`policy_names`].
    pub const ALL: [LbPolicy; POLICIES.len()] = {
        let mut all = [LbPolicy::RoundRobin; POLICIES.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = POLICIES[i].1;
            i += 1;
        }
        all
    };

    /// How many turns of a path a sender's window is to hold, for a driver that sends trains.
    ///
    /// Few where nothing is learnt from them: a turn that fills the driver's trains costs the fewest calls. A
    /// policy that judges paths by what comes back wants many small ones, as its source judges packets: with
    /// 8 on four links, one of them at a tenth of its rate, REPS kept half of the window on the slow link
    /// (0.70 of the capacity instead of 0.95).
    pub fn turns_in_flight(self) -> u64 {
        match self {
            LbPolicy::Reps | LbPolicy::MinRtt | LbPolicy::TwoChoice => 32,
            _ => 8,
        }
    }
}

impl fmt::Display for LbPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = POLICIES.iter().find(|(_, policy)| policy == self);
        f.pad(known.expect("every policy has a name").0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_that_leads_back_to_it() {
        for (i, policy) in LbPolicy::ALL.into_iter().enumerate() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy as usize, i, "{policy} is out of order, or one before it has no row");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "spray".parse::<LbPolicy>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no path policy is called `spray`; there is: ecmp, subflow, round-robin, oblivious, pro, psn, \
             dr, reps, plb, min-rtt, two-choice"
        );
    }
}
