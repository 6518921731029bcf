//! Quantised adaptive routing: a random port among those whose queue was in the lowest bin at the
//! last reading.

use super::offer::{Offer, pick_lowest};
use super::port_policy::{PortPolicy, PortRng};
use crate::port::Port;
use crate::time::Ps;
use crate::topology::{Node, PortId, Topology};

#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    /// Upper limits of all bins but the last, in bytes.
    bins: Vec<u64>,
    age: Ps,
    /// The time of the last reading. `None`: there was none.
    looked: Option<Ps>,
    /// The ports of the switch, sorted.
    ports: Vec<PortId>,
    /// The bin of each port at the last reading.
    seen: Vec<u64>,
}

impl Adaptive {
    pub(crate) fn new(bins: Vec<u64>, age: Ps, topology: &Topology, switch: u32) -> Self {
        let mut ports: Vec<PortId> = topology.ports_of(Node::Switch(switch)).collect();
        ports.sort_unstable();
        Adaptive { bins, age, looked: None, seen: vec![0; ports.len()], ports }
    }

    fn look(&mut self, queues: &[Port]) {
        for (port, bin) in self.ports.iter().zip(&mut self.seen) {
            let queued = queues[port.index()].bytes;
            *bin = self.bins.iter().take_while(|limit| queued >= **limit).count() as u64;
        }
    }
}

impl PortPolicy for Adaptive {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        if self.looked.is_none_or(|looked| offer.now.since(looked) >= self.age) {
            self.looked = Some(offer.now);
            self.look(offer.queues);
        }
        let bin_of = |port: PortId| {
            let at = self.ports.binary_search(&port).expect("a switch is offered its own ports");
            self.seen[at]
        };
        pick_lowest(offer.ports, bin_of, &mut rng.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::*;
    use crate::packet::Class::Data;

    struct AdaptiveEdge {
        trial: Trial,
        adaptive: Adaptive,
        rng: PortRng,
    }

    impl AdaptiveEdge {
        fn new(queued: [u64; 4]) -> AdaptiveEdge {
            let trial = Trial::new();
            let age = Ps::from_nanos(100);
            let adaptive = Adaptive::new(vec![100, 200], age, &trial.topology, 0);
            let mut edge = AdaptiveEdge { trial, adaptive, rng: PortRng::from_seed(1) };
            edge.queue(queued);
            edge
        }

        fn queue(&mut self, queued: [u64; 4]) {
            for (port, bytes) in self.trial.uplinks().iter().zip(queued) {
                self.trial.queues[port.index()].bytes = bytes;
            }
        }

        /// Returns the uplinks chosen in 60 tries.
        fn taken(&mut self) -> Vec<usize> {
            let AdaptiveEdge { trial, adaptive, rng } = self;
            let uplinks = trial.uplinks();
            let mut taken: Vec<usize> = (0..60)
                .map(|_| trial.offer(127, Data, |offer| adaptive.choose(offer, rng)))
                .map(|port| uplinks.iter().position(|uplink| *uplink == port).unwrap())
                .collect();
            taken.sort_unstable();
            taken.dedup();
            taken
        }
    }

    #[test]
    fn all_of_the_lowest_bin_are_taken_and_no_others() {
        assert_eq!(AdaptiveEdge::new([0, 99, 100, 300]).taken(), [0, 1]);
        assert_eq!(AdaptiveEdge::new([150, 250, 199, 200]).taken(), [0, 2]);
        assert_eq!(AdaptiveEdge::new([200, 999, 5000, 201]).taken(), [0, 1, 2, 3]);
    }

    #[test]
    fn readings_are_reused_until_their_age_limit() {
        let mut edge = AdaptiveEdge::new([0, 100, 100, 100]);
        assert_eq!(edge.taken(), [0]);
        edge.queue([300, 0, 0, 100]);
        edge.trial.now = Ps::from_nanos(99);
        assert_eq!(edge.taken(), [0]);
        edge.trial.now = Ps::from_nanos(100);
        assert_eq!(edge.taken(), [1, 2]);
    }
}
