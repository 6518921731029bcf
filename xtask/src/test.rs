//! `cargo xtask test`: everything, as CI runs it.

use std::process::Command;
use std::time::Duration;

use crate::step::{self, Outcome};
use crate::{Failure, advisories, msrv, tree};

/// No step takes half of this on two cores; a step that does hangs.
const STEP_LIMIT: Duration = Duration::from_secs(15 * 60);

/// A step's name, which is also its log's, and the arguments to cargo that run it alone.
struct Step {
    name: &'static str,
    cargo: &'static [&'static str],
}

const STEPS: &[Step] = &[
    Step { name: "tools", cargo: &["xtask", "tools"] },
    Step { name: "lint", cargo: &["xtask", "lint"] },
    Step { name: "test", cargo: &["test", "--workspace"] },
    Step { name: "recipe", cargo: &["xtask", "recipe"] },
    Step { name: "licences", cargo: &["xtask", "dependencies"] },
    Step { name: "advisories", cargo: &["xtask", "advisories"] },
    Step { name: "package", cargo: &["xtask", "package"] },
    Step { name: "msrv", cargo: &["xtask", "msrv"] },
    // Without examples, whose dependencies have other features: the steps after it use what it builds.
    Step { name: "build", cargo: &["build", "--workspace", "--release", "--bins"] },
    Step { name: "count", cargo: &["xtask", "count"] },
    Step { name: "e2e", cargo: &["xtask", "e2e"] },
    Step { name: "wireshark", cargo: &["xtask", "wireshark"] },
    Step { name: "c", cargo: &["xtask", "c"] },
    Step { name: "programs", cargo: &["xtask", "verbs-programs"] },
    Step { name: "deb", cargo: &["xtask", "deb", "--check"] },
    Step { name: "fabric", cargo: &["xtask", "fabric", "check"] },
    Step { name: "spray", cargo: &["run", "--release", "--bin", "braid-perf", "spray", "--quick"] },
    Step {
        name: "congestion",
        cargo: &["run", "--release", "--bin", "braid-perf", "congestion", "--quick"],
    },
    Step {
        name: "compare",
        cargo: &[
            "run",
            "--release",
            "--bin",
            "braid-perf",
            "compare",
            "--complete",
            "--rounds=1",
            "--seconds=0.1",
            "--mtu=9000",
            "--only=message-rate,latency-spinning",
        ],
    },
    Step { name: "flood", cargo: &["xtask", "flood"] },
    Step {
        name: "nccl",
        cargo: &["run", "--release", "--bin", "nccl-conformance", "--", "--quick"],
    },
    Step { name: "softroce", cargo: &["xtask", "softroce"] },
    Step { name: "loom", cargo: &["xtask", "loom"] },
    Step { name: "sanitize", cargo: &["xtask", "sanitize"] },
    Step { name: "fuzz", cargo: &["xtask", "fuzz", "--seconds", "10"] },
    // `cargo test` has run the first seeds already.
    Step { name: "soak", cargo: &["xtask", "soak", "--first", "10000", "--seeds", "20000"] },
    Step {
        name: "attempts",
        cargo: &["xtask", "soak", "--of", "connections", "--first", "10000", "--seeds", "2000"],
    },
];

/// Fetches what a step needs.
type Fetch = fn() -> Result<(), Failure>;

/// The steps that may be left out, each with what fetches its needs: they come from servers which a machine that gets at package
/// registries need not reach. The end of the summary says so.
const FETCHED: &[(&str, Fetch)] =
    &[("advisories", || advisories::fetch().map(drop)), ("msrv", || msrv::install().map(drop))];

/// A step's name, and why it cannot run.
type LeftOut = (&'static str, Failure);

/// Runs the steps in order up to the first that fails, and ends with what happened.
pub fn run() -> Result<(), Failure> {
    let target = tree::target()?;
    let left_out: Vec<LeftOut> =
        FETCHED.iter().filter_map(|(name, fetch)| Some((*name, fetch().err()?))).collect();
    let runs = |step: &&Step| left_out.iter().all(|(name, _)| *name != step.name);
    let steps: Vec<&Step> = STEPS.iter().filter(runs).collect();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for step in &steps {
        let log = step::log_path(&target, step.name);
        let outcome = step::run(step.name, &mut command(step), STEP_LIMIT, &log);
        let failed = outcome.failure.is_some();
        outcomes.push(outcome);
        if failed {
            break;
        }
    }
    println!("{}", summary(&steps, &outcomes, &left_out));
    match outcomes.iter().all(|outcome| outcome.failure.is_none()) {
        true => Ok(()),
        // The summary has said it all, and its last line is to stay the last.
        false => std::process::exit(1),
    }
}

fn command(step: &Step) -> Command {
    let mut command = tree::cargo();
    command.args(step.cargo);
    command
}

/// The table of steps, then what was left out and why, then the failed step's story, then the count.
fn summary(steps: &[&Step], outcomes: &[Outcome], left_out: &[LeftOut]) -> String {
    let mut lines = vec![String::new()];
    for (index, step) in steps.iter().enumerate() {
        lines.push(match outcomes.get(index) {
            Some(Outcome { took, failure: None }) => row(step.name, "passed", Some(*took)),
            Some(Outcome { took, .. }) => row(step.name, "FAILED", Some(*took)),
            None => row(step.name, "not run", None),
        });
    }
    for (name, why) in left_out {
        lines.push(format!("\nNOT CHECKED: {name}\n{why}"));
    }
    for (step, outcome) in steps.iter().zip(outcomes) {
        if let Some(failure) = &outcome.failure {
            let again = step.cargo.join(" ");
            lines.push(format!("\nFAILED: {}\n{failure}\n  again: cargo {again}", step.name));
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let not_checked = match left_out.len() {
        0 => String::new(),
        count => format!(", {count} not checked"),
    };
    lines.push(format!("\n{} passed, {failed} failed{not_checked}", outcomes.len() - failed));
    lines.join("\n")
}

fn row(name: &str, verdict: &str, took: Option<Duration>) -> String {
    match took {
        Some(took) => format!("{name:<10} {verdict:<8} {:>7.1} s", took.as_secs_f64()),
        None => format!("{name:<10} {verdict}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_left_out_is_a_step() {
        for (name, _) in FETCHED {
            assert!(STEPS.iter().any(|step| step.name == *name), "{name}");
        }
    }

    fn outcome(failure: Option<&str>) -> Outcome {
        Outcome { took: Duration::from_secs(2), failure: failure.map(Into::into) }
    }

    #[test]
    fn the_summary_ends_with_the_failure_and_the_count() {
        let steps: Vec<&Step> = STEPS.iter().collect();
        let text = summary(&steps, &[outcome(None), outcome(Some("why"))], &[]);
        assert!(
            text.contains("tools      passed       2.0 s\nlint       FAILED       2.0 s\n"),
            "{text}"
        );
        assert!(text.contains("soak       not run"), "{text}");
        let end = "\nFAILED: lint\nwhy\n  again: cargo xtask lint\n\n1 passed, 1 failed";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_summary_says_what_was_left_out() {
        let text =
            summary(&[&STEPS[0]], &[outcome(None)], &[("msrv", Failure::new("out of reach"))]);
        let end = "\nNOT CHECKED: msrv\nout of reach\n\n1 passed, 0 failed, 1 not checked";
        assert!(text.ends_with(end), "{text}");
    }
}
