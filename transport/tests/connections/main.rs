//! Many hosts try, accept, refuse, end and repeat connections over a network that loses, delays,
//! repeats and reorders datagrams.
//!
//! Virtual time, and a seed that decides everything. A model checks three things: every byte that
//! arrives belongs to the attempt that its queue pair was connected for; every work request
//! completes once; nothing is left behind.
//!
//! `BRAID_SCENARIOS=N` runs N seeds, `BRAID_FIRST_SEED=S` begins at S.

mod host;
#[path = "../kit/mod.rs"]
mod kit;
mod memory;
mod network;
mod record;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use self::kit::number;
use self::record::Record;
use self::world::World;

/// Runs one seed.
fn run(seed: u64, hosts: usize, attempts: u64) -> Record {
    let mut world = World::new(seed, hosts);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.play(attempts))) {
        eprintln!(
            "seed {seed} failed; again: cargo xtask soak --of connections --seeds 1 --first {seed}"
        );
        resume_unwind(panic);
    }
    world.record
}

#[test]
fn random_connections_agree_with_the_model() {
    let first = number("BRAID_FIRST_SEED", 0);
    for seed in first..first + number("BRAID_SCENARIOS", 40) {
        run(seed, 2 + seed as usize % 7, 200);
    }
}

/// Every kind of outcome happens many times.
#[test]
fn thousands_of_attempts() {
    let record = run(1, 100, 10_000);
    println!("{record:?}");
    let Record { timed_out, rejected, given_up, declined, repeated, failed, .. } = record;
    for count in [timed_out, rejected, given_up, declined, repeated, failed, record.whole] {
        assert!(count >= 100, "too few of some: {record:?}");
    }
    assert!(record.died > 0);
}
