//! The table of rail policies and their names.

use std::fmt;
use std::str::FromStr;

use super::policy::RailPolicy;
use super::{hash, least_loaded, lpt, min_rtt, round_robin};

/// A rail policy: one of the table ([`RailScheme::ALL`]) or one of the program.
///
/// ```
/// use braid_lb::RailScheme;
///
/// let policy: RailScheme = "round-robin".parse().unwrap();
/// assert_eq!(policy, RailScheme::ROUND_ROBIN);
/// ```
#[derive(Clone, Copy)]
pub struct RailScheme {
    name: &'static str,
    build: fn() -> Box<dyn RailPolicy>,
}

impl RailScheme {
    /// The open rail with the smallest product of round-trip time and packets in flight.
    pub const LEAST_LOADED: RailScheme = RailScheme::custom("least-loaded", least_loaded::build);
    /// Round robin over the open rails.
    pub const ROUND_ROBIN: RailScheme = RailScheme::custom("round-robin", round_robin::build);
    /// One rail per queue pair, by hash, as bonded interfaces do.
    pub const HASH: RailScheme = RailScheme::custom("hash", hash::build);
    /// The open rail on which the host has sent least (RailS, Algorithm 2).
    pub const LPT: RailScheme = RailScheme::custom("lpt", lpt::build);
    /// The open rail with the lowest round-trip time (MPTCP).
    pub const MIN_RTT: RailScheme = RailScheme::custom("min-rtt", min_rtt::build);

    /// All policies of the table.
    pub const ALL: [RailScheme; 5] =
        [Self::LEAST_LOADED, Self::ROUND_ROBIN, Self::HASH, Self::LPT, Self::MIN_RTT];

    /// Creates a policy of the program.
    pub const fn custom(name: &'static str, build: fn() -> Box<dyn RailPolicy>) -> Self {
        RailScheme { name, build }
    }

    /// Returns the name as users type it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Creates the policy.
    pub(super) fn build(self) -> Box<dyn RailPolicy> {
        (self.build)()
    }
}

impl Default for RailScheme {
    /// [`RailScheme::LEAST_LOADED`].
    fn default() -> Self {
        RailScheme::LEAST_LOADED
    }
}

impl PartialEq for RailScheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RailScheme {}

impl fmt::Debug for RailScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for RailScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// Returns the names of the table.
pub fn rail_scheme_names() -> impl Iterator<Item = &'static str> {
    RailScheme::ALL.into_iter().map(RailScheme::name)
}

/// An unknown policy name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown rail policy `{0}`; available: {names}", names = rail_scheme_names().collect::<Vec<_>>().join(", "))]
pub struct UnknownRailScheme(pub String);

impl FromStr for RailScheme {
    type Err = UnknownRailScheme;

    fn from_str(name: &str) -> Result<Self, UnknownRailScheme> {
        let known = RailScheme::ALL.into_iter().find(|scheme| scheme.name == name);
        known.ok_or_else(|| UnknownRailScheme(name.to_owned()))
    }
}
