//! `cargo xtask test`: everything that CI runs, and one part of what nightly runs.
//!
//! Lanes of steps run beside each other. Two compile and compute, at a lower priority; the third
//! mostly waits: for timers, and for links of limited rate. Each lane runs its steps one after the
//! other. When all are done, what a busy machine would disturb has it for itself.

mod lanes;
#[cfg(test)]
mod november;
mod steps;
mod summary;

use std::time::{Duration, Instant};

use crate::{Failure, advisories, msrv, nightly, tree};

pub(crate) use lanes::{Lane, Ran, run_lanes};
pub(crate) use steps::{SANITIZED, Step};
use summary::{LeftOut, summary};

/// Time after which a step hangs. The longest takes a quarter of it beside the other lanes, and
/// CI's machine may run at 0.4 of its speed.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Fetches what a step needs.
type Fetch = fn() -> Result<(), Failure>;

/// The steps that may be left out, each with what fetches its needs: they come from servers which a
/// machine that reaches package registries need not reach. The end of the summary says so.
const FETCHED: &[(&str, Fetch)] =
    &[("advisories", || advisories::fetch().map(drop)), ("msrv", || msrv::install().map(drop))];

/// Runs the steps up to the first that fails, and ends with what happened.
pub fn run() -> Result<(), Failure> {
    let start = Instant::now();
    let left_out: Vec<LeftOut> =
        FETCHED.iter().filter_map(|(name, fetch)| Some((*name, fetch().err()?))).collect();
    let part = nightly::part_of_this_commit()?;
    println!("of nightly's parts this commit runs `{}`", part.name);
    let mut lanes = steps::lanes();
    for lane in &mut lanes {
        lane.steps.retain(|step| left_out.iter().all(|(name, _)| *name != step.name));
    }
    let target = tree::target()?;
    let mut ran = run_lanes(&lanes, &target);
    let alone = vec![steps::COUNT, *part];
    match ran.iter().all(Ran::has_passed) {
        true => ran.extend(run_lanes(&[Lane::alone(alone)], &target)),
        false => ran.extend(alone.into_iter().map(|step| Ran { step, outcome: None })),
    }
    end(&ran, &left_out, start.elapsed())
}

/// Prints the summary, and fails if a step has.
pub(crate) fn end(ran: &[Ran], left_out: &[LeftOut], total: Duration) -> Result<(), Failure> {
    println!("{}", summary(ran, left_out, total));
    match ran.iter().all(Ran::has_passed) {
        true => Ok(()),
        // The summary has said it all, and its last line is to stay the last.
        false => std::process::exit(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_left_out_is_a_step() {
        let names: Vec<_> = steps::lanes()
            .iter()
            .flat_map(|lane| lane.steps.clone())
            .map(|step| step.name)
            .collect();
        for (name, _) in FETCHED {
            assert!(names.contains(name), "{name}");
        }
    }
}
