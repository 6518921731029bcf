//! DRILL(d, 1): the shortest of d different random queues and the best one remembered (Ghorbani et
//! al., SIGCOMM 2017). One port is remembered per destination, as in the simulator of ConWeave's
//! authors.

use std::collections::HashMap;

use super::offer::Offer;
use super::port_policy::{PortPolicy, PortRng};
use crate::topology::PortId;
use rand::seq::SliceRandom;

#[derive(Clone, Debug)]
pub(crate) struct Drill {
    samples: u32,
    /// The port chosen last, by destination.
    best: HashMap<u32, PortId>,
    /// The packet's ports, as a scratch buffer for sampling.
    ports: Vec<PortId>,
}

impl Drill {
    pub(crate) fn new(samples: u32) -> Self {
        Drill { samples, best: HashMap::new(), ports: Vec::new() }
    }
}

impl PortPolicy for Drill {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        let dst = offer.packet.dst;
        self.ports.clear();
        self.ports.extend_from_slice(offer.ports);
        let (sampled, _) = self.ports.partial_shuffle(&mut rng.0, self.samples as usize);
        let remembered = self.best.get(&dst).copied().filter(|best| offer.ports.contains(best));
        let best = remembered
            .into_iter()
            .chain(sampled.iter().copied())
            // The first of equal queues wins, so the remembered port stays.
            .min_by_key(|port| offer.queued(*port))
            .unwrap_or(offer.ports[0]);
        self.best.insert(dst, best);
        best
    }

    fn on_routes_changed(&mut self) {
        self.best.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::*;
    use crate::packet::Class::Data;

    #[test]
    fn the_best_is_kept_until_a_sample_is_shorter() {
        let mut trial = Trial::new();
        let mut drill = Drill::new(2);
        let mut rng = PortRng::from_seed(1);
        let uplinks = trial.uplinks();
        uplinks.iter().for_each(|port| trial.queues[port.index()].bytes = 5000);
        trial.queues[uplinks[2].index()].bytes = 0;
        // Two samples of four miss the shortest queue 30 times in a row with a probability of
        // 10^-9.
        for _ in 0..30 {
            trial.offer(127, Data, |offer| drill.choose(offer, &mut rng));
        }
        for _ in 0..30 {
            let port = trial.offer(127, Data, |offer| drill.choose(offer, &mut rng));
            assert_eq!(port, uplinks[2]);
        }
        trial.queues[uplinks[2].index()].bytes = 9000;
        let moved = (0..30).map(|_| trial.offer(127, Data, |offer| drill.choose(offer, &mut rng)));
        assert_ne!(moved.last(), Some(uplinks[2]));
    }

    #[test]
    fn a_remembered_port_without_a_route_is_forgotten() {
        let mut trial = Trial::new();
        let mut drill = Drill::new(2);
        let mut rng = PortRng::from_seed(1);
        let gone = trial.uplinks()[2];
        trial.cut(gone);
        drill.best.insert(127, gone);
        for _ in 0..30 {
            assert_ne!(trial.offer(127, Data, |offer| drill.choose(offer, &mut rng)), gone);
        }
    }

    #[test]
    fn the_best_port_is_remembered_per_destination() {
        let mut trial = Trial::new();
        let mut drill = Drill::new(1);
        let mut rng = PortRng::from_seed(1);
        let uplinks = trial.uplinks();
        uplinks.iter().for_each(|port| trial.queues[port.index()].bytes = 5000);
        drill.best.insert(127, uplinks[2]);
        let mut taken = |dst: u32| trial.offer(dst, Data, |offer| drill.choose(offer, &mut rng));
        assert_eq!([(); 9].map(|()| taken(127)), [uplinks[2]; 9], "equals do not move it");
        // All samples for another destination hit that port with a probability of 4^-9.
        let others: Vec<PortId> = (100..109).map(&mut taken).collect();
        assert!(others.iter().any(|port| *port != uplinks[2]), "{others:?}");
    }

    #[test]
    fn as_many_samples_as_ports_find_the_shortest_queue_at_once() {
        let mut trial = Trial::new();
        let mut rng = PortRng::from_seed(1);
        let uplinks = trial.uplinks();
        uplinks.iter().for_each(|port| trial.queues[port.index()].bytes = 5000);
        trial.queues[uplinks[3].index()].bytes = 0;
        for samples in [4, 9] {
            for dst in 100..127 {
                let mut drill = Drill::new(samples);
                let taken = trial.offer(dst, Data, |offer| drill.choose(offer, &mut rng));
                assert_eq!(taken, uplinks[3], "{samples} samples of 4 without replacement");
            }
        }
    }
}
