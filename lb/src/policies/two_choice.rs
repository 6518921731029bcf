//! The better of two random paths (UCCL). The balance is close to that of the best path, but
//! senders do not all use the same one. Assumes nothing about the fabric.

use braid_wire::PathId;

use crate::rank::is_far_worse;
use crate::{Batch, Order, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId};

/// Maximum number of pairs drawn.
const DRAWS: u32 = 4;

pub(crate) struct TwoChoiceFactory;

impl PathPolicyFactory for TwoChoiceFactory {
    fn name(&self) -> &str {
        "two-choice"
    }

    fn requirements(&self) -> Requirements {
        Requirements {
            order: Order::Rank,
            shares_batches: true,
            quanta: 32,
            ..Requirements::default()
        }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(TwoChoice)
    }
}

#[derive(Debug)]
struct TwoChoice;

impl PathPolicy for TwoChoice {
    fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        let best = paths.lowest_rank();
        let mut path = draw_two(paths, rng);
        for _ in 1..DRAWS {
            if !is_far_worse(paths.rank(path), best) {
                break;
            }
            path = draw_two(paths, rng);
        }
        path
    }
}

fn draw_two(paths: &Paths, rng: &mut PathRng) -> PathId {
    let first = paths.random(rng);
    let Some(second) = paths.random_beside(&[first], rng) else { return first };
    if paths.rank(second) < paths.rank(first) { second } else { first }
}
