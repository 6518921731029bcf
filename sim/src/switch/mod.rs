//! Switch policies: the choice among equal routes.

mod adaptive;
mod conweave;
mod drill;
mod ecmp;
mod gate;
mod gate_context;
mod least_loaded;
mod ofan;
mod offer;
mod port_policy;
mod rotation;
mod source;
mod themis;
#[cfg(test)]
mod trial;

pub(crate) use gate::Gate;
pub(crate) use gate_context::{Action, GateContext, Pass};
pub use offer::Offer;
pub use port_policy::{CustomPolicy, PortPolicy, PortPolicyFactory, PortRng};
pub use themis::ThemisMemory;

use crate::packet::Packet;
use crate::time::Ps;
use crate::topology::{PortId, Tier, Topology};

use self::adaptive::Adaptive;
use self::drill::Drill;
use self::ecmp::Ecmp;
use self::least_loaded::LeastLoaded;
use self::ofan::Ofan;
use self::offer::{Random, Shortest};
use self::rotation::Rotation;
use self::source::{SourceOr, SourceRouting};
use self::themis::Spray;

/// A switch policy with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum Policy {
    /// A hash of addresses and source port, with a salt per switch.
    Ecmp,
    /// The source port names the route (PRO, section V).
    Source,
    /// The source port names the route. If that route has failed, [`Policy::LeastLoaded`] chooses
    /// (PRO, section V: link failures).
    SourceOrLeastLoaded {
        /// The interval of the readings.
        every: Ps,
    },
    /// The port with the shortest queue, then the least load, in coarse grades at the last reading.
    LeastLoaded {
        /// The interval of the readings.
        every: Ps,
    },
    /// A random port for every packet: RSQ (OFAN, section 6).
    Random,
    /// The ports in rotation.
    RoundRobin {
        /// Number of rounds after which the order is shuffled again. `None`: never (SIMPLE RR).
        permute: Option<u32>,
    },
    /// The ports in rotation, with separate pointers for data and control, so that neither shifts
    /// the other.
    RoundRobinByClass {
        /// Number of rounds after which the order is shuffled again.
        permute: Option<u32>,
    },
    /// The port with the fewest bytes, a random one among equals: JSQ.
    Shortest,
    /// A random port among those whose queue was in the lowest bin at the last reading.
    Adaptive {
        /// Upper limits of all bins but the last, in bytes.
        bins: Vec<u64>,
        /// Maximum age of the readings.
        age: Ps,
    },
    /// The shortest of `samples` different random queues and the best one remembered per
    /// destination (DRILL, 2017).
    Drill {
        /// Number of random queues per packet.
        samples: u32,
    },
    /// A pointer per destination edge or pod and per class (OFAN, section 7).
    Ofan {
        /// Whether a pointer starts at the shortest queue and takes the ports in their own order,
        /// instead of at a random port in a random order (appendix F.4).
        from_shortest: bool,
        /// Whether a port has as many turns as shortest routes behind it. Otherwise each port that
        /// leads to the destination has one turn (appendix F.4).
        weighted: bool,
    },
    /// Flows move away from slow paths, and edge switches restore their order (ConWeave, 2023).
    ConWeave,
    /// Packets are sprayed by PSN, and edge switches hold back NACKs that prove no loss (Themis).
    /// Hosts keep a flow to one source port, with the path policy `ecmp`.
    Themis {
        /// Number of PSNs that an edge switch remembers per queue pair:
        /// [`ThemisMemory::ring_entries`].
        ring: u32,
        /// Whether an edge switch first checks that an expected packet has not passed since the
        /// packet that triggered the NACK. The paper does not mention this check.
        look_back: bool,
        /// Whether a blocked NACK is sent once a later packet of the same route proves the loss
        /// (section 3.4).
        compensate: bool,
    },
    /// A policy of the program: [`Policy::custom`].
    Custom(CustomPolicy),
}

impl Policy {
    /// Creates a policy of the program. The factory has a static lifetime, so that configurations
    /// can copy the value. A program that knows its parameters only at run time leaks it once with
    /// [`Box::leak`].
    pub const fn custom(factory: &'static dyn PortPolicyFactory) -> Policy {
        Policy::Custom(CustomPolicy::new(factory))
    }

    /// Creates the policy of a switch.
    fn build(&self, topology: &Topology, switch: u32, rng: &mut PortRng) -> Box<dyn PortPolicy> {
        let source = || SourceRouting::new(topology, switch);
        let least_loaded = |every: &Ps| LeastLoaded::new(topology, switch, *every);
        match self {
            Policy::Ecmp | Policy::ConWeave => Box::new(Ecmp::new(rng.number())),
            Policy::Source => Box::new(source()),
            Policy::SourceOrLeastLoaded { every } => {
                Box::new(SourceOr(source(), least_loaded(every)))
            }
            Policy::LeastLoaded { every } => Box::new(least_loaded(every)),
            Policy::Random => Box::new(Random),
            Policy::RoundRobin { permute } => Box::new(Rotation::new(*permute, false)),
            Policy::RoundRobinByClass { permute } => Box::new(Rotation::new(*permute, true)),
            Policy::Shortest => Box::new(Shortest),
            Policy::Adaptive { bins, age } => {
                Box::new(Adaptive::new(bins.clone(), *age, topology, switch))
            }
            Policy::Drill { samples } => Box::new(Drill::new(*samples)),
            Policy::Ofan { from_shortest, weighted } => {
                let tier = topology.switches[switch as usize].tier;
                Box::new(Ofan::new(tier == Tier::Edge, *from_shortest, *weighted))
            }
            Policy::Themis { .. } => {
                Box::new(Spray::new(topology, switch, Ecmp::new(rng.number())))
            }
            Policy::Custom(policy) => policy.build(topology, switch, rng),
        }
    }
}

/// The policy of a switch and its state.
#[derive(Debug)]
pub(crate) struct Chooser {
    /// The hash for control packets, if they are routed by hash.
    control: Option<Ecmp>,
    policy: Box<dyn PortPolicy>,
    rng: PortRng,
}

impl Chooser {
    /// Creates the policy of a switch; `control_hashed`: control packets are routed by hash.
    pub(crate) fn new(
        policy: &Policy,
        control_hashed: bool,
        topology: &Topology,
        switch: u32,
        seed: u64,
    ) -> Chooser {
        let mut rng = PortRng::from_seed(seed);
        let policy = policy.build(topology, switch, &mut rng);
        let control = control_hashed.then(|| Ecmp::new(rng.number()));
        Chooser { control, policy, rng }
    }

    /// Chooses one of the offered ports.
    #[inline]
    pub(crate) fn choose(&mut self, offer: &Offer<'_>) -> PortId {
        match &self.control {
            Some(hash) if !offer.packet.is_data() => hash.hashed(offer),
            _ => self.policy.choose(offer, &mut self.rng),
        }
    }

    /// Returns the port that it will choose, if that is certain.
    #[inline]
    pub(crate) fn foresee(&self, packet: &Packet, ports: &[PortId]) -> Option<PortId> {
        self.policy.foresee(packet, ports)
    }

    /// Resets state that depends on the sets of equal routes.
    pub(crate) fn on_routes_changed(&mut self) {
        self.policy.on_routes_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::trial::Trial;
    use super::*;
    use crate::packet::Class::{Control, Data};

    #[test]
    fn control_that_goes_by_hash_takes_no_turn() {
        let trial = Trial::new();
        let taken = |control_hashed: bool| {
            let policy = Policy::RoundRobin { permute: None };
            let mut chooser = Chooser::new(&policy, control_hashed, &trial.topology, 0, 1);
            [Data, Control, Data, Control, Data]
                .map(|class| trial.offer(127, class, |offer| chooser.choose(offer)))
        };
        let uplinks = trial.uplinks();
        assert_eq!(taken(false)[..4], uplinks[..4]);
        let [first, control, second, again, third] = taken(true);
        assert_eq!([first, second, third], uplinks[..3]);
        assert_eq!(control, again);
    }
}
