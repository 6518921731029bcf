//! `cargo xtask test`: everything that CI runs, one part of what nightly runs, and some
//! experiments of the papers' studies.
//!
//! Lanes of steps run beside each other. Two compile and compute, at a lower priority; the third
//! mostly waits: for timers, and for links of limited rate. Each lane runs its steps one after the
//! other. When all are done, what a busy machine would disturb has it for itself.

#[cfg(test)]
mod november;
mod steps;

use std::time::Instant;

use crate::lanes::{Lane, LeftOut, Ran, end, run_lanes};
use crate::{Failure, advisories, msrv, nightly, tree};

pub(crate) use steps::SANITIZED;

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
