//! What is compared. The paper does not say how its baselines use a domain's interfaces.

use braid_lb::{LbPolicy, RailScheme};
use braid_sim::host::DataPath;

/// How flows come to interfaces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Spraying {
    /// Each by itself, as a rail policy of the hosts says.
    ByHosts(DataPath, RailScheme),
    /// In chunks, whose rails are known before the first one leaves.
    Planned(Ties),
}

/// Which of equally loaded rails a chunk takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ties {
    /// The one with least for its destination, from another start for each pair of domains: the shipped scheduler.
    ByDestination,
    /// The first; chunks come in the order of their GPUs (Algorithm 2 as printed).
    ByGpu,
    /// None is equally loaded: what is for one of the second half of the domains goes by that one's share of the rails only,
    /// which is even where as much goes to each.
    RailsOfDomain,
}

/// A scheme under its name in the figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scheme {
    pub(super) name: &'static str,
    pub(super) spraying: Spraying,
    /// Which way through the spines.
    pub(super) lb: LbPolicy,
}

const fn by_hosts(
    name: &'static str,
    data_path: DataPath,
    rails: RailScheme,
    lb: LbPolicy,
) -> Scheme {
    Scheme { name, spraying: Spraying::ByHosts(data_path, rails), lb }
}

/// Rail i leads to rail i by one switch: there is nothing to choose on the way.
const fn planned(name: &'static str, ties: Ties) -> Scheme {
    Scheme { name, spraying: Spraying::Planned(ties), lb: LbPolicy::ECMP }
}

impl Scheme {
    pub(super) const ECMP: Scheme =
        by_hosts("ECMP", DataPath::Own, RailScheme::HASH, LbPolicy::ECMP);
    pub(super) const PLB: Scheme = by_hosts("PLB", DataPath::Own, RailScheme::HASH, LbPolicy::PLB);
    pub(super) const MIN_RTT: Scheme =
        by_hosts("MinRTT", DataPath::AnySender, RailScheme::MIN_RTT, LbPolicy::ECMP);
    pub(super) const REPS: Scheme =
        by_hosts("REPS", DataPath::AnySender, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    pub(super) const RAILS: Scheme = planned("RailS", Ties::ByDestination);

    /// Those of the figures.
    pub(super) const COMPARED: [Scheme; 5] =
        [Scheme::ECMP, Scheme::PLB, Scheme::MIN_RTT, Scheme::REPS, Scheme::RAILS];
    /// All but RailS.
    pub(super) const OTHERS: [Scheme; 4] =
        [Scheme::ECMP, Scheme::PLB, Scheme::MIN_RTT, Scheme::REPS];

    pub(super) const ECMP_ANY: Scheme =
        by_hosts("ECMP, any NIC", DataPath::AnySender, RailScheme::HASH, LbPolicy::ECMP);
    pub(super) const MIN_RTT_ALIGNED: Scheme =
        by_hosts("MinRTT, i to i", DataPath::Aligned, RailScheme::MIN_RTT, LbPolicy::ECMP);
    pub(super) const REPS_OWN: Scheme =
        by_hosts("REPS, own NIC", DataPath::Own, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    pub(super) const REPS_ALIGNED: Scheme =
        by_hosts("REPS, i to i", DataPath::Aligned, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    /// As it ships: chunks are not known ahead.
    pub(super) const ONLINE: Scheme =
        by_hosts("RailS, online", DataPath::Aligned, RailScheme::LPT, LbPolicy::ECMP);
    pub(super) const TIES_BY_GPU: Scheme = planned("RailS, ties by GPU", Ties::ByGpu);
    pub(super) const RAILS_OF_DOMAIN: Scheme = planned("rails of each domain", Ties::RailsOfDomain);
}
