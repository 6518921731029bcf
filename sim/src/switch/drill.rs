//! DRILL(d, 1): the shortest of d random queues and the best one remembered (Ghorbani et al., SIGCOMM 2017).

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::Offer;
use crate::topology::PortId;

#[derive(Clone, Debug)]
pub(crate) struct Drill {
    samples: u32,
    /// The port that was taken last.
    best: Option<PortId>,
}

impl Drill {
    pub(crate) fn new(samples: u32) -> Self {
        Drill { samples, best: None }
    }

    pub(crate) fn choose(&mut self, offer: &Offer<'_>, rng: &mut Pcg64Mcg) -> PortId {
        let remembered = self.best.filter(|best| offer.ports.contains(best));
        let first = remembered.unwrap_or_else(|| sample(offer.ports, rng));
        let (mut best, mut shortest) = (first, offer.queued(first));
        for _ in 0..self.samples {
            let port = sample(offer.ports, rng);
            let queued = offer.queued(port);
            if queued < shortest {
                (best, shortest) = (port, queued);
            }
        }
        self.best = Some(best);
        best
    }

    pub(crate) fn on_routes_changed(&mut self) {
        self.best = None;
    }
}

fn sample(ports: &[PortId], rng: &mut Pcg64Mcg) -> PortId {
    ports[rng.random_range(0..ports.len())]
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::super::trial::Trial;
    use super::*;
    use crate::packet::Class::Data;

    #[test]
    fn the_best_is_kept_until_a_sample_is_shorter() {
        let mut trial = Trial::new();
        let mut drill = Drill::new(2);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let uplinks = trial.uplinks();
        uplinks.iter().for_each(|port| trial.queues[port.index()].bytes = 5000);
        trial.queues[uplinks[2].index()].bytes = 0;
        // Two samples of four miss the shortest queue 30 times in a row once in 10^9.
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
    fn what_is_remembered_is_forgotten_where_it_does_not_lead() {
        let mut trial = Trial::new();
        let mut drill = Drill::new(2);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let gone = trial.uplinks()[2];
        trial.cut(gone);
        drill.best = Some(gone);
        for _ in 0..30 {
            assert_ne!(trial.offer(127, Data, |offer| drill.choose(offer, &mut rng)), gone);
        }
    }
}
