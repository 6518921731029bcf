//! Plain RoCEv2 in virtual time: random scenarios against a model, single events, hostile peers.
//!
//! `BRAID_SCENARIOS=N` runs N random scenarios, `BRAID_FIRST_SEED=S` begins at S.

mod bottleneck;
mod congestion;
mod hostile;
mod host;
#[path = "../kit/mod.rs"]
mod kit;
mod model;
mod network;
mod pair;
mod plan;
mod refusals;
mod single;
mod world;

use self::kit::number;
use self::world::Totals;

/// Random scenarios of the ordinary test run.
const SEEDS: u64 = 3000;

/// The totals show that the scenarios contain what they are for.
#[test]
fn random_scenarios_match_the_model() {
    let (first, count) = (number("BRAID_FIRST_SEED", 0), number("BRAID_SCENARIOS", SEEDS));
    let mut totals = Totals::default();
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| world::run(seed));
        match outcome {
            Ok(of_one) => totals += of_one,
            Err(_) => panic!(
                "seed {seed} failed: BRAID_FIRST_SEED={seed} BRAID_SCENARIOS=1 \
                 cargo test -p braid-transport --test rc random"
            ),
        }
    }
    println!("{totals:?}");
    if count >= SEEDS {
        let Totals { completed, failed, lost, duplicated, rnr_naks, timeouts, wraps, .. } = totals;
        let Totals { replays, marks, cnps, .. } = totals;
        let counts = [completed, failed, lost, duplicated, rnr_naks, timeouts, wraps];
        let counts = counts.into_iter().chain([replays, marks, cnps]).collect::<Vec<_>>();
        assert!(counts.iter().all(|count| *count > 100), "{totals:?}");
    }
}
