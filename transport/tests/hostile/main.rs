//! Connected peers that lie, thousands of them, in virtual time. A seed decides everything.
//!
//! `BRAID_HOSTILE_SEEDS=N` runs N of them, `BRAID_FIRST_SEED=S` begins at S.

mod attack;

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};

use braid_transport::{Status, Work};
use cap::Cap;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::attack::choices::Choices;
use self::attack::kit::number;
use self::attack::{Attack, Reached};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const SEEDS: u64 = 2_000;
/// Steps of an attack; about three packets each for two connections.
const STEPS: u64 = 300;
const LONG: u64 = 100_000;
/// Limit in bytes for four queue pairs, their work requests and their packets in flight, however
/// long an attack lasts.
const BOUND: usize = 1 << 20;

const WORKS: [Work; 7] = [
    Work::Send,
    Work::Write,
    Work::Read,
    Work::CompareSwap,
    Work::FetchAdd,
    Work::Recv,
    Work::RecvWriteImm,
];

struct Seeded(Pcg64Mcg);

impl Choices for Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }
}

fn run(seed: u64, steps: u64, mut after: impl FnMut(u64)) -> Reached {
    let mut choices = Seeded(Pcg64Mcg::seed_from_u64(seed));
    let mut attack = Attack::new(&mut choices);
    for step in 0..steps {
        attack.step(&mut choices);
        after(step);
    }
    attack.end()
}

#[test]
fn lying_peer_harms_only_its_own_connections() {
    let first = number("BRAID_FIRST_SEED", 0);
    let mut reached = Reached::new();
    for seed in first..first + number("BRAID_HOSTILE_SEEDS", SEEDS) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, STEPS, |_| {})));
        let Ok(ended) = result else {
            panic!(
                "seed {seed} failed, see above; again: BRAID_HOSTILE_SEEDS=1 \
                 BRAID_FIRST_SEED={seed} cargo test -p braid-transport --test hostile"
            );
        };
        ended.into_iter().for_each(|(kind, count)| *reached.entry(kind).or_default() += count);
    }
    // A liar whose packets are all refused would test little.
    let believed = |work| reached.contains_key(&(work, Status::Success));
    let missing = WORKS.into_iter().find(|work| !believed(*work));
    assert!(first > 0 || missing.is_none(), "{missing:?} never succeeds: {reached:?}");
    // In the same test function: whatever else ran in this process would be counted too.
    for seed in 0..2 {
        let before = ALLOCATOR.allocated();
        run(seed, LONG, |step| {
            let grown = ALLOCATOR.allocated().saturating_sub(before);
            assert!(grown < BOUND, "seed {seed}: {grown} bytes after {step} steps of lies");
        });
    }
}
