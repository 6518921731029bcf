//! The interface of switch policies, those of a program included.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::offer::Offer;
use crate::packet::Packet;
use crate::topology::{PortId, Topology};

/// The choice of a switch among equal routes, with its state.
///
/// ```
/// use braid_sim::switch::{Offer, Policy, PortPolicy, PortPolicyFactory, PortRng};
/// use braid_sim::topology::{PortId, Topology};
///
/// /// The shorter one of two random queues.
/// #[derive(Debug)]
/// struct TwoChoices;
///
/// impl PortPolicy for TwoChoices {
///     fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
///         let [a, b] = [(); 2].map(|()| offer.ports[rng.below(offer.ports.len())]);
///         if offer.queued(b) < offer.queued(a) { b } else { a }
///     }
/// }
///
/// impl PortPolicyFactory for TwoChoices {
///     fn name(&self) -> &str {
///         "two-choices"
///     }
///
///     fn build(&self, _: &Topology, _: u32, _: &mut PortRng) -> Box<dyn PortPolicy> {
///         Box::new(TwoChoices)
///     }
/// }
///
/// let policy = Policy::custom(&TwoChoices);
/// assert_eq!(policy, Policy::custom(&TwoChoices));
/// ```
pub trait PortPolicy: fmt::Debug + Send {
    /// Chooses one of the offered ports for a packet. Called for each packet with two or more equal
    /// routes.
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId;

    /// Returns the port that [`PortPolicy::choose`] will return for a packet, if that is certain.
    /// The simulator may prefetch the port. Nothing else depends on this.
    fn foresee(&self, _packet: &Packet, _ports: &[PortId]) -> Option<PortId> {
        None
    }

    /// Resets state that depends on the sets of equal routes, because routing has changed them.
    fn on_routes_changed(&mut self) {}
}

/// Creates the policy of each switch.
pub trait PortPolicyFactory: Sync {
    /// Returns the name, for reports.
    fn name(&self) -> &str;

    /// Creates the policy of a switch. Different switches may have different ones.
    fn build(&self, topology: &Topology, switch: u32, rng: &mut PortRng) -> Box<dyn PortPolicy>;
}

/// The random numbers of a switch: a generator of its own, so that the choices of one switch do not
/// shift those of another.
#[derive(Clone, Debug)]
pub struct PortRng(pub(super) Pcg64Mcg);

impl PortRng {
    /// Creates a generator, for tests of a policy alone.
    pub fn from_seed(seed: u64) -> Self {
        PortRng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Returns a random number.
    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// Returns a uniformly distributed number below `count`.
    ///
    /// # Panics
    /// Panics if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }
}

/// A policy of the program. Two values with the same name are equal.
#[derive(Clone, Copy)]
pub struct CustomPolicy(&'static dyn PortPolicyFactory);

impl CustomPolicy {
    pub(super) const fn new(factory: &'static dyn PortPolicyFactory) -> Self {
        CustomPolicy(factory)
    }

    pub(super) fn build(
        self,
        topology: &Topology,
        switch: u32,
        rng: &mut PortRng,
    ) -> Box<dyn PortPolicy> {
        Box::new(Checked { inner: self.0.build(topology, switch, rng), name: self.0.name() })
    }
}

impl PartialEq for CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// A policy of the program, whose choices are checked: a packet at a port of another switch would
/// leave its route.
#[derive(Debug)]
struct Checked {
    inner: Box<dyn PortPolicy>,
    name: &'static str,
}

impl PortPolicy for Checked {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        let port = self.inner.choose(offer, rng);
        assert!(
            offer.ports.contains(&port),
            "switch policy {} chose {port:?} at switch {}, which was offered {:?}; \
             return one of the offered ports",
            self.name,
            offer.switch,
            offer.ports
        );
        port
    }

    fn on_routes_changed(&mut self) {
        self.inner.on_routes_changed();
    }
}
