//! Signals behind WRITEs, as NCCL's RMA tables use them: a fetch-and-add takes effect at the peer
//! only when all WRITEs before it are in place. Random networks in virtual time; a seed decides
//! everything.
//!
//! `BRAID_SCENARIOS=N` runs N of them, `BRAID_FIRST_SEED=S` begins at S.

mod board;
#[path = "../kit/mod.rs"]
mod kit;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::kit::number;
use self::world::{Totals, World};

const THREADS: u64 = 2;
/// Seeds, one of which at least shows a driver that reports packets before they are in place.
const NOTICED_WITHIN: u64 = 50;

fn run(seed: u64, is_hasty: bool) -> Result<Totals, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(seed, is_hasty).run()));
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!(
            "seed {seed}: {}\nagain: BRAID_SCENARIOS=1 BRAID_FIRST_SEED={seed} cargo test -p \
             braid-transport --test signals",
            text.unwrap_or_default()
        )
    })
}

#[test]
fn signals_follow_the_writes_before_them() {
    let first = number("BRAID_FIRST_SEED", 0);
    let end = first + number("BRAID_SCENARIOS", 2_000);
    let (next, totals) = (AtomicU64::new(first), Mutex::new(Totals::default()));
    let failures = Mutex::new(Vec::new());
    let work = || {
        let mut own = Totals::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match run(seed, false) {
                Ok(seen) => own += seen,
                Err(failure) => {
                    failures.lock().unwrap().push(failure);
                    next.store(end, Ordering::Relaxed);
                }
            }
        }
        *totals.lock().unwrap() += own;
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let (totals, failures) = (totals.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("seeds {first} to {}: {totals:?}", end - 1);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(end - first < 100 || totals.signals > 0 && totals.lost > 0 && totals.overtaken > 0);
}

/// Otherwise the test above would pass whatever the order is.
#[test]
fn packets_that_are_reported_before_they_are_in_place_are_noticed() {
    let noticed = (0..NOTICED_WITHIN)
        .find(|seed| run(*seed, true).is_err_and(|failure| failure.contains(board::OUT_OF_ORDER)));
    assert!(noticed.is_some(), "no early signal is found within {NOTICED_WITHIN} seeds");
}
