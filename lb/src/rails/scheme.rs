//! What a rail policy is, and how it is named.

use std::fmt;
use std::str::FromStr;

use braid_wire::RailId;

use super::{HostLoads, RailChoice, hash, least_loaded, lpt, min_rtt, round_robin};
use crate::StreamId;

/// Picks the rail of each chunk of a stream: so many bytes in a row that one rail carries. One is made for each
/// destination.
pub trait RailPolicy: fmt::Debug + Send {
    /// The rail of the stream's next chunk: one that is [open](RailChoice::open), or one that the chunk is to wait for. In the
    /// place of one that is not in use the first open one is taken.
    fn pick(&mut self, stream: StreamId, rails: &RailChoice<'_>) -> RailId;

    /// A packet leaves on a rail. For policies that keep count of the host's loads, which no other has to.
    fn on_sent(&mut self, _rail: RailId, _host: &HostLoads) {}
}

/// Names a rail policy: one of the table ([`RailScheme::ALL`]), or one that a program brings along.
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
    /// The open rail with the least under way for its round-trip time.
    pub const LEAST_LOADED: RailScheme = RailScheme::custom("least-loaded", least_loaded::build);
    /// One open rail after the other.
    pub const ROUND_ROBIN: RailScheme = RailScheme::custom("round-robin", round_robin::build);
    /// One rail per queue pair, by hash, as bonded interfaces do.
    pub const HASH: RailScheme = RailScheme::custom("hash", hash::build);
    /// The open rail on which the host has sent least (RailS, Algorithm 2).
    pub const LPT: RailScheme = RailScheme::custom("lpt", lpt::build);
    /// The open rail with the lowest round-trip time (MPTCP).
    pub const MIN_RTT: RailScheme = RailScheme::custom("min-rtt", min_rtt::build);

    /// Every policy of the table.
    pub const ALL: [RailScheme; 5] =
        [Self::LEAST_LOADED, Self::ROUND_ROBIN, Self::HASH, Self::LPT, Self::MIN_RTT];

    /// A policy of the program's own.
    pub const fn custom(name: &'static str, build: fn() -> Box<dyn RailPolicy>) -> Self {
        RailScheme { name, build }
    }

    /// Its name, as users type it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Makes the policy.
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

/// The names of the table.
pub fn rail_scheme_names() -> impl Iterator<Item = &'static str> {
    RailScheme::ALL.into_iter().map(RailScheme::name)
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no rail policy is called `{0}`; there is: {names}", names = rail_scheme_names().collect::<Vec<_>>().join(", "))]
pub struct UnknownRailScheme(pub String);

impl FromStr for RailScheme {
    type Err = UnknownRailScheme;

    fn from_str(name: &str) -> Result<Self, UnknownRailScheme> {
        let known = RailScheme::ALL.into_iter().find(|scheme| scheme.name == name);
        known.ok_or_else(|| UnknownRailScheme(name.to_owned()))
    }
}
