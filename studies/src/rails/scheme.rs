//! The compared schemes. The paper does not describe the use of a domain's interfaces by its
//! baselines.

use braid_lb::{LbPolicy, RailScheme};
use braid_sim::host::DataPath;

/// The assignment of flows to interfaces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Spraying {
    /// Independent flows, by a rail policy of the hosts.
    ByHosts(DataPath, RailScheme),
    /// Chunks whose rails are planned before the first one is sent, by the scheduler of `lb`.
    Planned,
    /// Chunks whose rails are planned in another way.
    PlannedBy(Ties),
}

/// The choice among equally loaded rails, other than that of `lb`'s scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ties {
    /// The first rail; chunks come in the order of their GPUs (Algorithm 2 as printed).
    ByGpu,
    /// No ties: traffic to a domain of the second half uses only its share of the rails, which is
    /// even if each domain gets the same amount.
    RailsOfDomain,
}

/// A scheme with its name in the figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RailsScheme {
    pub(super) name: &'static str,
    pub(super) spraying: Spraying,
    /// The path policy over the spines.
    pub(super) lb: LbPolicy,
}

const fn by_hosts(
    name: &'static str,
    data_path: DataPath,
    rails: RailScheme,
    lb: LbPolicy,
) -> RailsScheme {
    RailsScheme { name, spraying: Spraying::ByHosts(data_path, rails), lb }
}

/// Rail i leads to rail i over one switch, so there is no choice of path.
const fn planned(name: &'static str, spraying: Spraying) -> RailsScheme {
    RailsScheme { name, spraying, lb: LbPolicy::ECMP }
}

impl RailsScheme {
    pub(super) const ECMP: RailsScheme =
        by_hosts("ECMP", DataPath::Own, RailScheme::HASH, LbPolicy::ECMP);
    pub(super) const PLB: RailsScheme =
        by_hosts("PLB", DataPath::Own, RailScheme::HASH, LbPolicy::PLB);
    pub(super) const MIN_RTT: RailsScheme =
        by_hosts("MinRTT", DataPath::AnySender, RailScheme::MIN_RTT, LbPolicy::ECMP);
    pub(super) const REPS: RailsScheme =
        by_hosts("REPS", DataPath::AnySender, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    pub(super) const RAILS: RailsScheme = planned("RailS", Spraying::Planned);

    /// The schemes of the figures.
    pub(super) const COMPARED: [RailsScheme; 5] = [
        RailsScheme::ECMP,
        RailsScheme::PLB,
        RailsScheme::MIN_RTT,
        RailsScheme::REPS,
        RailsScheme::RAILS,
    ];
    /// All schemes but RailS.
    pub(super) const OTHERS: [RailsScheme; 4] =
        [RailsScheme::ECMP, RailsScheme::PLB, RailsScheme::MIN_RTT, RailsScheme::REPS];

    pub(super) const ECMP_ANY: RailsScheme =
        by_hosts("ECMP, any NIC", DataPath::AnySender, RailScheme::HASH, LbPolicy::ECMP);
    pub(super) const MIN_RTT_ALIGNED: RailsScheme =
        by_hosts("MinRTT, i to i", DataPath::Aligned, RailScheme::MIN_RTT, LbPolicy::ECMP);
    pub(super) const REPS_OWN: RailsScheme =
        by_hosts("REPS, own NIC", DataPath::Own, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    pub(super) const REPS_ALIGNED: RailsScheme =
        by_hosts("REPS, i to i", DataPath::Aligned, RailScheme::ROUND_ROBIN, LbPolicy::REPS);
    /// The shipped rail policy, which does not know chunks in advance.
    pub(super) const ONLINE: RailsScheme =
        by_hosts("RailS, online", DataPath::Aligned, RailScheme::LPT, LbPolicy::ECMP);
    pub(super) const TIES_BY_GPU: RailsScheme =
        planned("RailS, ties by GPU", Spraying::PlannedBy(Ties::ByGpu));
    pub(super) const RAILS_OF_DOMAIN: RailsScheme =
        planned("rails of each domain", Spraying::PlannedBy(Ties::RailsOfDomain));
}
