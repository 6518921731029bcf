//! The schemes that the paper compares (Tables 2 and 3), as path policy, switch policy and marks.

use braid_lb::LbPolicy;

use braid_sim::host::Paths;
use braid_sim::switch::Policy;
use braid_sim::time::Ps;

/// A load-balancing scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OfanScheme {
    Flow,
    Subflow,
    HostFlowletAr,
    HostPkt,
    SwitchPkt,
    HostPktAr,
    SwitchPktAr,
    SimpleRr,
    Jsq,
    Rsq,
    HostDr,
    Ofan,
    /// OFAN whose pointers start at the shortest queue, in the order of the ports (appendix F.4).
    OfanShortest,
    /// OFAN that knows which ports lead on, but not how many routes they have (appendix F.4).
    OfanUnweighted,
}

use OfanScheme::*;

/// The leading contenders of Table 2, in its order.
pub(super) const CONTENDERS: [OfanScheme; 7] =
    [Flow, Subflow, HostFlowletAr, HostPkt, SwitchPkt, HostPktAr, SwitchPktAr];
/// The contenders that spray packets.
pub(super) const SPRAYING: [OfanScheme; 4] = [HostPkt, SwitchPkt, HostPktAr, SwitchPktAr];
/// The schemes of section 8.
pub(super) const BEST: [OfanScheme; 3] = [SwitchPktAr, HostPktAr, Ofan];

impl OfanScheme {
    /// Returns the paper's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Flow => "FLOW",
            Subflow => "SUBFLOW",
            HostFlowletAr => "HOST FLOWLET AR",
            HostPkt => "HOST PKT",
            SwitchPkt => "SWITCH PKT",
            HostPktAr => "HOST PKT AR",
            SwitchPktAr => "SWITCH PKT AR",
            SimpleRr => "SIMPLE RR",
            Jsq => "JSQ",
            Rsq => "RSQ",
            HostDr => "HOST DR",
            Ofan => "OFAN",
            OfanShortest => "OFAN from the shortest queue",
            OfanUnweighted => "OFAN without weights",
        }
    }

    pub(super) fn lb(self) -> LbPolicy {
        match self {
            Subflow => LbPolicy::SUBFLOW,
            HostFlowletAr => LbPolicy::PLB,
            HostPkt => LbPolicy::OBLIVIOUS,
            HostPktAr => LbPolicy::REPS,
            HostDr => LbPolicy::DR,
            Flow | SwitchPkt | SwitchPktAr | SimpleRr | Jsq | Rsq | Ofan | OfanShortest
            | OfanUnweighted => LbPolicy::ECMP,
        }
    }

    /// Returns the kind of paths; `entropies`: flow labels that a host has for each destination.
    pub(super) fn paths(self, entropies: u16) -> Paths {
        match self {
            HostDr => Paths::Source,
            Flow | Subflow | HostFlowletAr | HostPkt | HostPktAr => Paths::Hashed(entropies),
            SwitchPkt | SwitchPktAr | SimpleRr | Jsq | Rsq | Ofan | OfanShortest
            | OfanUnweighted => Paths::Hashed(1),
        }
    }

    /// Returns the switch policy; `buffer`: bytes of a port.
    pub(super) fn policy(self, buffer: u64) -> Policy {
        match self {
            Flow | Subflow | HostFlowletAr | HostPkt | HostPktAr => Policy::Ecmp,
            HostDr => Policy::Source,
            SwitchPkt => Policy::RoundRobin { permute: Some(5) },
            SwitchPktAr => {
                let bins = [5, 10, 20].map(|percent| buffer * percent / 100);
                Policy::Adaptive { bins: bins.to_vec(), age: Ps::from_nanos(100) }
            }
            SimpleRr => Policy::RoundRobinByClass { permute: None },
            Jsq => Policy::Shortest,
            Rsq => Policy::Random,
            Ofan => Policy::Ofan { from_shortest: false, weighted: true },
            OfanShortest => Policy::Ofan { from_shortest: true, weighted: true },
            OfanUnweighted => Policy::Ofan { from_shortest: false, weighted: false },
        }
    }

    /// Returns the percent of a full queue from which packets are marked.
    pub(super) fn marked_from(self) -> Option<u64> {
        match self {
            HostFlowletAr => Some(50),
            HostPktAr => Some(10),
            _ => None,
        }
    }
}
