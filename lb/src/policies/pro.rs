//! Orchestrated round robin: PRO, Alg. 1, with a batch in the place of a packet.
//!
//! Every queue pair visits all M paths in steps of a common `span`. A new queue pair starts after
//! the last pick, so that the queue pairs of a sender are staggered. Assumes equivalent paths and a
//! scheduler that serves the queue pairs in turn, one batch each.
//!
//! - `span` is P, the number of invited queue pairs, raised until it is coprime with M. The paper
//!   assumes that M is a power of two and makes `span` odd, which is equivalent. Here M is any
//!   number, because paths die.
//! - A batch takes one path, because a GSO call has one source port, and counts as one packet of
//!   Alg. 1. In PRO's batch form (section III-A) a batch of n packets takes n paths, so C advances
//!   by n and M becomes M/n. If it takes one, that form leaves a single turn for n >= M: every
//!   queue pair starts at the same path.
//! - C starts at a random path instead of 0, as PRO's proof of Lemma 4 assumes. Otherwise all
//!   senders use the same path at once: the queue there is a batch per sender, and messages of a
//!   few batches never reach the last paths.

use braid_wire::PathId;

use crate::{
    Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, Requirements, StreamId,
};

pub(crate) struct ProFactory;

impl PathPolicyFactory for ProFactory {
    fn name(&self) -> &str {
        "pro"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Pro::new(paths, rng))
    }
}

/// The order of all queue pairs of a path set.
#[derive(Debug)]
pub(super) struct Pro {
    shared: Shared,
    /// The slot of the last batch. `None` until the queue pair is invited.
    slots: PerStream<Option<u16>>,
}

impl Pro {
    pub(super) fn new(paths: &Paths, rng: &mut PathRng) -> Self {
        let counter = rng.below(paths.len()) as u32;
        Pro { shared: Shared::starting_at(counter), slots: PerStream::default() }
    }
}

impl PathPolicy for Pro {
    fn admit(&mut self, stream: StreamId, _: &mut PathRng) {
        self.slots.admit(stream, None);
    }

    fn dismiss(&mut self, stream: StreamId) {
        if self.slots[stream].take().is_some() {
            self.shared.dismiss();
        }
    }

    fn pick(&mut self, stream: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(self.shared.pick(&mut self.slots[stream], paths.len()))
    }
}

/// The step size, which follows from the first two fields.
#[derive(Clone, Copy, Debug)]
struct Step {
    paths: u32,
    invited: u32,
    span: u32,
}

impl Step {
    fn new(paths: u32, invited: u32) -> Self {
        // Only the remainder matters. It is taken after rounding, so that an even P becomes P + 1.
        let coprime = |span: &u32| gcd(*span, paths) == 1;
        let span = (invited..).find(coprime).expect("one in `paths` numbers is coprime with it");
        Step { paths, invited, span: span % paths }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The state that the queue pairs of a path set share.
#[derive(Debug)]
struct Shared {
    /// Number of invited queue pairs (P).
    invited: u32,
    /// Position after the last pick, at which the next new queue pair starts (C).
    counter: u32,
    step: Step,
}

impl Shared {
    fn starting_at(counter: u32) -> Self {
        Shared { invited: 0, counter, step: Step::new(1, 1) }
    }

    /// Removes an invited queue pair.
    fn dismiss(&mut self) {
        self.invited = self.invited.saturating_sub(1);
    }

    /// Returns the slot, below `paths`, of a queue pair's next batch. `qp` is its last slot, or
    /// `None` before its first batch.
    fn pick(&mut self, qp: &mut Option<u16>, paths: usize) -> usize {
        let paths = paths as u32;
        let slot = match *qp {
            Some(last) => (u32::from(last) + self.step(paths).span) % paths,
            None => {
                self.invited += 1;
                self.counter % paths
            }
        };
        *qp = Some(slot as u16);
        self.counter = slot + 1;
        slot as usize
    }

    fn step(&mut self, paths: u32) -> Step {
        if (self.step.paths, self.step.invited) != (paths, self.invited) {
            self.step = Step::new(paths, self.invited);
        }
        self.step
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs rounds of `qps` queue pairs that pick in turn.
    fn rounds(qps: usize, paths: usize, rounds: usize) -> Vec<Vec<usize>> {
        let mut pro = Shared::starting_at(0);
        let mut slots = vec![None; qps];
        let mut round = || slots.iter_mut().map(|qp| pro.pick(qp, paths)).collect();
        (0..rounds).map(|_| round()).collect()
    }

    fn distinct(slots: &[usize]) -> usize {
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        slots.dedup();
        slots.len()
    }

    /// Alg. 1 line by line: two queue pairs, M = 4. Both are new: C = 0 gives 0, C = 1 gives 1, C =
    /// 2. Then P = 2 makes span 3: 0 + 3, 1 + 3 = 0 (mod 4), and so on.
    #[test]
    fn two_queue_pairs_over_four_paths_follow_algorithm_1() {
        let taken = rounds(2, 4, 5);
        assert_eq!(taken, [[0, 1], [3, 0], [2, 3], [1, 2], [0, 1]]);
    }

    /// A third queue pair joins after [3, 0]: C = 0 + 1, so it starts at 1, and P = 3 is already
    /// odd.
    #[test]
    fn a_new_queue_pair_starts_after_the_last_pick() {
        let mut pro = Shared::starting_at(0);
        let (mut a, mut b, mut c) = (None, None, None);
        let mut pick = |qp: &mut Option<u16>| pro.pick(qp, 4);
        assert_eq!([pick(&mut a), pick(&mut b), pick(&mut a), pick(&mut b)], [0, 1, 3, 0]);
        assert_eq!([pick(&mut c), pick(&mut a), pick(&mut b), pick(&mut c)], [1, 2, 3, 0]);
    }

    #[test]
    fn the_span_shrinks_when_a_queue_pair_goes() {
        let mut pro = Shared::starting_at(0);
        let (mut a, mut b) = (None, None);
        pro.pick(&mut a, 8); // 0
        pro.pick(&mut b, 8); // 1
        pro.dismiss();
        assert_eq!([pro.pick(&mut a, 8), pro.pick(&mut a, 8)], [1, 2]); // P = 1: span 1
    }

    /// C starts anywhere, and later queue pairs follow from there. M may have shrunk meanwhile.
    #[test]
    fn the_first_queue_pair_starts_at_the_counter() {
        let mut pro = Shared::starting_at(6);
        let (mut a, mut b) = (None, None);
        assert_eq!([pro.pick(&mut a, 8), pro.pick(&mut b, 8), pro.pick(&mut a, 8)], [6, 7, 1]);
        assert_eq!(Shared::starting_at(6).pick(&mut None, 4), 2);
    }

    #[test]
    fn a_span_that_shares_a_factor_with_an_odd_number_of_paths_is_raised() {
        assert_eq!(Step::new(9, 3).span, 4);
        assert_eq!(Step::new(15, 3).span, 4);
        assert_eq!(Step::new(15, 5).span, 7);
        assert_eq!(rounds(3, 1, 2), [[0, 0, 0], [0, 0, 0]]);
    }

    proptest! {
        #[test]
        fn any_m_picks_of_a_queue_pair_cover_all_m_paths(
            paths in 1_usize..100, qps in 1_usize..20,
        ) {
            // The first rounds change P. From the second round on it is constant.
            let taken = rounds(qps, paths, 3 * paths + 1);
            for qp in 0..qps {
                let of_qp: Vec<usize> = taken[1..].iter().map(|round| round[qp]).collect();
                for window in of_qp.windows(paths) {
                    prop_assert_eq!(distinct(window), paths);
                }
            }
        }

        #[test]
        fn queue_pairs_never_meet_in_a_round(paths in 2_usize..100, qps in 1_usize..100) {
            prop_assume!(qps < paths);
            for round in rounds(qps, paths, 2 * paths) {
                prop_assert_eq!(distinct(&round), qps);
            }
        }

        #[test]
        fn every_pick_is_a_path_however_the_arguments_change(
            calls in prop::collection::vec((0_usize..4, 1_usize..5000), 1..200),
        ) {
            let mut pro = Shared::starting_at(0);
            let mut qps = [None; 4];
            for (qp, paths) in calls {
                prop_assert!(pro.pick(&mut qps[qp], paths) < paths);
            }
        }
    }
}
