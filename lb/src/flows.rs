//! Policies that tie a queue pair to few paths or to none: `ecmp`, `subflow`, `psn`.

use braid_wire::PathId;
use rand::Rng;

use crate::slots::Slots;

/// One path per queue pair, as the hash of a switch would give it. It assumes nothing of the fabric and
/// cannot avoid collisions: two queue pairs with the same hash share a path while others idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecmp {
    hash: u32,
    at: Option<PathId>,
}

impl Ecmp {
    pub(crate) fn new(hash: u32) -> Self {
        Ecmp { hash, at: None }
    }

    /// The path it is on. It moves only when that dies: other deaths must not move it (resilient hashing).
    pub(crate) fn pick(&mut self, slots: &Slots) -> PathId {
        match self.at {
            Some(path) if slots.is_live(path) => path,
            _ => *self.at.insert(slots.at(self.hash as usize)),
        }
    }
}

/// How many paths [`Subflows`] takes.
const SUBFLOWS: usize = 4;

/// A few random paths per queue pair, in turn (SUBFLOW of OFAN, section 4). One that dies is replaced
/// by another random one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subflows {
    /// The first `len` count.
    paths: [PathId; SUBFLOWS],
    len: u8,
    turn: u8,
}

impl Subflows {
    pub(crate) fn new(slots: &Slots, rng: &mut impl Rng) -> Self {
        let mut paths = [PathId::default(); SUBFLOWS];
        let mut len = 0;
        while len < SUBFLOWS {
            let Some(path) = slots.random_beside(&paths[..len], rng) else { break };
            paths[len] = path;
            len += 1;
        }
        Subflows { paths, len: len as u8, turn: 0 }
    }

    pub(crate) fn pick(&mut self, slots: &Slots, rng: &mut impl Rng) -> PathId {
        let len = usize::from(self.len);
        for _ in 0..len {
            let turn = usize::from(self.turn);
            self.turn = ((turn + 1) % len) as u8;
            if !slots.is_live(self.paths[turn]) {
                // Nothing beside the others: fewer paths live than there are subflows.
                let Some(path) = slots.random_beside(&self.paths[..len], rng) else { continue };
                self.paths[turn] = path;
            }
            return self.paths[turn];
        }
        slots.random(rng)
    }
}

/// The slot of the train that begins with `psn` (Themis, Eq. 1: path = (PSN mod N + base) mod N), with the
/// train's index in the place of the PSN. A retransmission falls on the path of the first try.
pub(crate) fn slot_of_psn(psn: u32, segments: u32, base: u32, slots: &Slots) -> usize {
    let n = slots.len();
    ((psn / segments) as usize % n + base as usize % n) % n
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn without(slots: &mut Slots, dead: &[PathId]) {
        slots.relist(|path| dead.contains(&path));
    }

    #[test]
    fn ecmp_moves_only_when_its_own_path_dies() {
        let mut slots = Slots::new(8);
        let mut flow = Ecmp::new(13); // 13 mod 8 = 5
        assert_eq!(flow.pick(&slots), PathId::new(5));
        without(&mut slots, &[PathId::new(0), PathId::new(6)]);
        assert_eq!(flow.pick(&slots), PathId::new(5));
        without(&mut slots, &[PathId::new(5)]); // 13 mod 7 = 6: slot 6 of 0 1 2 3 4 6 7
        assert_eq!(flow.pick(&slots), PathId::new(7));
        without(&mut slots, &[]);
        assert_eq!(flow.pick(&slots), PathId::new(7));
    }

    #[test]
    fn subflows_are_four_distinct_paths_in_turn_and_the_dead_are_replaced() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut slots = Slots::new(16);
        let mut flows = Subflows::new(&slots, &mut rng);
        let mut turn = |slots: &Slots| [(); 4].map(|()| flows.pick(slots, &mut rng));
        let first = turn(&slots);
        let mut distinct = first.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
        assert_eq!(turn(&slots), first);

        without(&mut slots, &[first[2]]);
        let second = turn(&slots);
        assert_eq!([second[0], second[1], second[3]], [first[0], first[1], first[3]]);
        assert!(!first.contains(&second[2]));
    }

    #[test]
    fn fewer_live_paths_than_subflows_are_shared() {
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        let mut slots = Slots::new(4);
        let mut flows = Subflows::new(&slots, &mut rng);
        without(&mut slots, &[PathId::new(1), PathId::new(3)]);
        let taken: Vec<u16> = (0..6).map(|_| flows.pick(&slots, &mut rng).get()).collect();
        assert!(taken == [0, 2, 0, 2, 0, 2] || taken == [2, 0, 2, 0, 2, 0], "{taken:?}");
    }

    #[test]
    fn the_psn_decides_per_train_and_wraps_quietly() {
        let slots = Slots::new(3);
        // Trains of 2: PSN 4 begins train 2, (2 mod 3 + 7 mod 3) mod 3 = 0.
        assert_eq!(slot_of_psn(4, 2, 7, &slots), 0);
        assert_eq!(slot_of_psn(6, 2, 7, &slots), 1);
        assert_eq!(slot_of_psn(5, 2, 7, &slots), slot_of_psn(4, 2, 7, &slots));
        assert!(slot_of_psn(0xFF_FFFF, 1, u32::MAX, &slots) < 3);
    }
}
