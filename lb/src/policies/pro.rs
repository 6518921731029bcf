//! Orchestrated round robin: PRO, Alg. 1 and its batch form (PRO, section III-A).
//!
//! Every queue pair visits all M paths in steps of a common `span`. A new queue pair starts after
//! the last pick, so that the queue pairs of a sender are staggered. Assumes equivalent paths and a
//! scheduler that serves the queue pairs in turn, one batch each.
//!
//! - `span` is P, the number of invited queue pairs, raised until it is coprime with the number of
//!   turns. The paper assumes that M is a power of two and makes `span` odd, which is equivalent.
//!   Here M is any number, because paths die.
//! - A batch of n packets takes one path (one GSO call has one source port), whereas the paper
//!   numbers the packets. b is the largest divisor of M that is at most n, and G = M/b, the paper's
//!   "M becomes M/n". A queue pair takes G turns of one batch each, then the next of the b rows of
//!   G paths. So G consecutive batches use G paths, and M use all M. With n = 1, this is Alg. 1
//!   itself.

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

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Pro::new())
    }
}

/// The order of all queue pairs of a path set.
#[derive(Debug)]
pub(super) struct Pro {
    shared: Shared,
    /// `None` until the queue pair is invited.
    turns: PerStream<Option<Turn>>,
}

impl Pro {
    pub(super) fn new() -> Self {
        Pro { shared: Shared::new(), turns: PerStream::default() }
    }
}

impl PathPolicy for Pro {
    fn admit(&mut self, stream: StreamId, _: &mut PathRng) {
        self.turns.admit(stream, None);
    }

    fn dismiss(&mut self, stream: StreamId) {
        if self.turns[stream].take().is_some() {
            self.shared.dismiss();
        }
    }

    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(self.shared.pick(&mut self.turns[stream], paths.len(), batch.segments))
    }
}

/// The position of one queue pair: the path of its last batch is `turn + row * G`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turn {
    turn: u16,
    row: u16,
    /// Batches since the start of the row.
    taken: u16,
}

/// The step size, which follows from the first three fields.
#[derive(Clone, Copy, Debug)]
struct Step {
    paths: u32,
    segments: u32,
    invited: u32,
    batch: u32,
    span: u32,
}

impl Step {
    fn new(paths: u32, segments: u32, invited: u32) -> Self {
        let divides = |batch: &u32| paths.is_multiple_of(*batch);
        let batch = (1..=segments.min(paths)).rev().find(divides).expect("1 divides everything");
        let turns = paths / batch;
        // Only the remainder matters. It is taken after rounding, so that an even P becomes P + 1.
        let coprime = |span: &u32| gcd(*span, turns) == 1;
        let span = (invited..).find(coprime).expect("one in `turns` numbers is coprime with it");
        Step { paths, segments, invited, batch, span: span % turns }
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
    fn new() -> Self {
        Shared { invited: 0, counter: 0, step: Step::new(1, 1, 1) }
    }

    /// Removes an invited queue pair.
    fn dismiss(&mut self) {
        self.invited = self.invited.saturating_sub(1);
    }

    /// Returns the slot, below `paths`, of a queue pair's next batch. `qp` is `None` before its
    /// first batch.
    fn pick(&mut self, qp: &mut Option<Turn>, paths: usize, segments: u32) -> usize {
        if qp.is_none() {
            self.invited += 1;
        }
        let step = self.step(paths as u32, segments);
        let turns = step.paths / step.batch;
        let next = match *qp {
            Some(last) => last.next(turns, step),
            None => Turn { turn: (self.counter / step.batch % turns) as u16, row: 0, taken: 1 },
        };
        *qp = Some(next);
        self.counter = (u32::from(next.turn) + 1) * step.batch;
        (u32::from(next.turn) + u32::from(next.row) * turns) as usize
    }

    fn step(&mut self, paths: u32, segments: u32) -> Step {
        let (known, invited) = (self.step, self.invited);
        if (known.paths, known.segments, known.invited) != (paths, segments, invited) {
            self.step = Step::new(paths, segments, invited);
        }
        self.step
    }
}

impl Turn {
    /// Returns the next position, also after the number of turns or rows has changed.
    fn next(self, turns: u32, step: Step) -> Turn {
        let (mut row, mut taken) = (u32::from(self.row), u32::from(self.taken));
        if taken >= turns {
            (row, taken) = (row + 1, 0);
        }
        let turn = (u32::from(self.turn) + step.span) % turns;
        Turn { turn: turn as u16, row: (row % step.batch) as u16, taken: taken as u16 + 1 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs rounds of `qps` queue pairs that pick in turn.
    fn rounds(qps: usize, paths: usize, segments: u32, rounds: usize) -> Vec<Vec<usize>> {
        let mut pro = Shared::new();
        let mut turns = vec![None; qps];
        let mut round = || turns.iter_mut().map(|qp| pro.pick(qp, paths, segments)).collect();
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
        let taken = rounds(2, 4, 1, 5);
        assert_eq!(taken, [[0, 1], [3, 0], [2, 3], [1, 2], [0, 1]]);
    }

    /// A third queue pair joins after [3, 0]: C = 0 + 1, so it starts at 1, and P = 3 is already
    /// odd.
    #[test]
    fn a_new_queue_pair_starts_after_the_last_pick() {
        let mut pro = Shared::new();
        let (mut a, mut b, mut c) = (None, None, None);
        let mut pick = |qp: &mut Option<Turn>| pro.pick(qp, 4, 1);
        assert_eq!([pick(&mut a), pick(&mut b), pick(&mut a), pick(&mut b)], [0, 1, 3, 0]);
        assert_eq!([pick(&mut c), pick(&mut a), pick(&mut b), pick(&mut c)], [1, 2, 3, 0]);
    }

    #[test]
    fn the_span_shrinks_when_a_queue_pair_goes() {
        let mut pro = Shared::new();
        let (mut a, mut b) = (None, None);
        pro.pick(&mut a, 8, 1); // 0
        pro.pick(&mut b, 8, 1); // 1
        pro.dismiss();
        assert_eq!([pro.pick(&mut a, 8, 1), pro.pick(&mut a, 8, 1)], [1, 2]); // P = 1: span 1
    }

    /// M = 8, n = 2: b = 2, G = 4. One queue pair, span 1: turns 0 1 2 3 of row 0, then of row 1
    /// (+4). C after the first batch is 0 * 2 + 2, so a second queue pair takes turn 2 / 2 = 1.
    #[test]
    fn the_batch_form_fills_rows() {
        let alone: Vec<usize> = rounds(1, 8, 2, 9).concat();
        assert_eq!(alone, [0, 1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(rounds(2, 8, 2, 3), [[0, 1], [3, 0], [2, 3]]);
    }

    #[test]
    fn a_span_that_shares_a_factor_with_an_odd_number_of_paths_is_raised() {
        assert_eq!(Step::new(9, 1, 3).span, 4);
        assert_eq!(Step::new(15, 1, 3).span, 4);
        assert_eq!(Step::new(15, 1, 5).span, 7);
        assert_eq!((Step::new(7, 4, 2).batch, Step::new(12, 5, 2).batch), (1, 4));
        assert_eq!(rounds(3, 1, 16, 2), [[0, 0, 0], [0, 0, 0]]);
    }

    proptest! {
        #[test]
        fn any_m_picks_of_a_queue_pair_cover_all_m_paths(
            paths in 1_usize..100, qps in 1_usize..20, segments in 1_u32..20,
        ) {
            // The first rounds change P. From the second round on it is constant.
            let taken = rounds(qps, paths, segments, 3 * paths + 1);
            for qp in 0..qps {
                let of_qp: Vec<usize> = taken[1..].iter().map(|round| round[qp]).collect();
                for window in of_qp.windows(paths) {
                    prop_assert_eq!(distinct(window), paths);
                }
            }
        }

        #[test]
        fn g_batches_in_a_row_are_on_g_paths(
            paths in 1_usize..100, qps in 1_usize..20, segments in 1_u32..20,
        ) {
            let turns = paths / (1..=segments as usize).rev().find(|b| paths.is_multiple_of(*b)).unwrap();
            let taken = rounds(qps, paths, segments, 2 * paths + 1);
            for qp in 0..qps {
                let of_qp: Vec<usize> = taken[1..].iter().map(|round| round[qp]).collect();
                for window in of_qp.windows(turns) {
                    prop_assert_eq!(distinct(window), turns);
                }
            }
        }

        #[test]
        fn queue_pairs_never_meet_in_a_round(paths in 2_usize..100, qps in 1_usize..100) {
            prop_assume!(qps < paths);
            for round in rounds(qps, paths, 1, 2 * paths) {
                prop_assert_eq!(distinct(&round), qps);
            }
        }

        #[test]
        fn every_pick_is_a_path_however_the_arguments_change(
            calls in prop::collection::vec((0_usize..4, 1_usize..5000, 1_u32..100), 1..200),
        ) {
            let mut pro = Shared::new();
            let mut qps = [None; 4];
            for (qp, paths, segments) in calls {
                prop_assert!(pro.pick(&mut qps[qp], paths, segments) < paths);
            }
        }
    }
}
