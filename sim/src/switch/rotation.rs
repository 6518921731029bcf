//! Round robin over the ports of a next-hop group, for all destinations (OFAN, sections 3 and 6).

use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::offer::Offer;
use super::port_policy::{PortPolicy, PortRng};
use crate::topology::PortId;

/// The pointer is not looked up yet.
const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    /// Number of rounds after which the order is shuffled.
    permute: Option<u32>,
    /// Whether data and control have separate pointers.
    by_class: bool,
    /// One pointer per group of ports, and per class if classes are separate.
    pointers: Vec<Pointer>,
    /// The index of the pointer by destination edge, twice if classes are separate.
    known: Vec<u32>,
}

/// A position in a rotation.
#[derive(Clone, Debug)]
struct Pointer {
    /// The key of the pointer: the ports as they were offered, and the class.
    group: Vec<PortId>,
    class: usize,
    order: Vec<PortId>,
    at: usize,
    rounds: u32,
}

impl Rotation {
    pub(crate) fn new(permute: Option<u32>, by_class: bool) -> Self {
        Rotation { permute, by_class, pointers: Vec::new(), known: Vec::new() }
    }

    fn find(&mut self, group: &[PortId], class: usize) -> u32 {
        let is_it = |pointer: &Pointer| pointer.group == group && pointer.class == class;
        let index = self.pointers.iter().position(is_it).unwrap_or_else(|| {
            self.pointers.push(Pointer::new(group, class));
            self.pointers.len() - 1
        });
        index as u32
    }
}

impl PortPolicy for Rotation {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        let class = if self.by_class { offer.packet.class as usize } else { 0 };
        let edge = offer.topology.nics[offer.packet.dst as usize].edge as usize;
        let at = 2 * edge + class;
        if at >= self.known.len() {
            self.known.resize(at + 1, UNKNOWN);
        }
        if self.known[at] == UNKNOWN {
            self.known[at] = self.find(offer.ports, class);
        }
        self.pointers[self.known[at] as usize].next(self.permute, &mut rng.0)
    }

    fn on_routes_changed(&mut self) {
        self.pointers.clear();
        self.known.clear();
    }
}

impl Pointer {
    fn new(group: &[PortId], class: usize) -> Self {
        Pointer { group: group.to_vec(), class, order: group.to_vec(), at: 0, rounds: 0 }
    }

    fn next(&mut self, permute: Option<u32>, rng: &mut Pcg64Mcg) -> PortId {
        let port = self.order[self.at];
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
            self.rounds += 1;
            if permute.is_some_and(|rounds| self.rounds >= rounds) {
                self.rounds = 0;
                self.order.shuffle(rng);
            }
        }
        port
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::*;
    use crate::packet::Class::{Control, Data};

    #[test]
    fn ports_rotate_over_all_destinations() {
        let trial = Trial::new();
        let mut rotation = Rotation::new(None, false);
        let mut rng = PortRng::from_seed(1);
        let mut next = |dst, class| {
            let port = trial.offer(dst, class, |offer| rotation.choose(offer, &mut rng));
            trial.uplinks().iter().position(|uplink| *uplink == port).unwrap()
        };
        let taken = [next(127, Data), next(60, Data), next(127, Control), next(4, Data)];
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(next(127, Data), 0);
    }

    #[test]
    fn data_and_control_can_be_apart() {
        let trial = Trial::new();
        let mut rotation = Rotation::new(None, true);
        let mut rng = PortRng::from_seed(1);
        let mut next = |class| trial.offer(127, class, |offer| rotation.choose(offer, &mut rng));
        let data = [next(Data), next(Data)];
        assert_eq!([next(Control), next(Control)], data);
    }

    #[test]
    fn the_order_is_shuffled_after_some_rounds_and_every_round_is_whole() {
        let mut pointer = Pointer::new(&[2, 4, 6, 8].map(PortId), 0);
        let mut rng = PortRng::from_seed(1);
        let mut round = || [(); 4].map(|()| pointer.next(Some(2), &mut rng.0));
        let rounds: Vec<[PortId; 4]> = (0..40).map(|_| round()).collect();
        assert!(rounds.chunks(2).all(|two| two[0] == two[1]));
        assert!(rounds.windows(2).any(|two| two[0] != two[1]));
        for mut round in rounds {
            round.sort_unstable();
            assert_eq!(round, [2, 4, 6, 8].map(PortId));
        }
    }

    #[test]
    fn another_set_of_routes_starts_another_rotation() {
        let mut trial = Trial::new();
        let mut rotation = Rotation::new(None, false);
        let mut rng = PortRng::from_seed(1);
        let gone = trial.uplinks()[1];
        trial.offer(127, Data, |offer| rotation.choose(offer, &mut rng));
        rotation.on_routes_changed();
        trial.cut(gone);
        let taken: Vec<PortId> = (0..6)
            .map(|_| trial.offer(127, Data, |offer| rotation.choose(offer, &mut rng)))
            .collect();
        assert!(!taken.contains(&gone));
        assert_eq!(taken[..3], taken[3..]);
    }
}
