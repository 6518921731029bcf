//! `cargo xtask test`: everything, as CI runs it.

use std::process::Command;
use std::time::Duration;

use crate::step::{self, Outcome};
use crate::{Failure, msrv, tree};

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
    Step { name: "package", cargo: &["xtask", "package"] },
    Step { name: MSRV, cargo: &["xtask", "msrv"] },
    Step { name: "build", cargo: &["build", "--workspace", "--release", "--bins", "--examples"] },
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

/// The one step that may be left out: its compiler comes from the server of Rust's releases, which a machine that gets at package
/// registries need not reach. The end of the summary says so.
const MSRV: &str = "msrv";

/// Runs the steps in order up to the first that fails, and ends with what happened.
pub fn run() -> Result<(), Failure> {
    let target = tree::target()?;
    let left_out = msrv::install().err();
    let steps: Vec<&Step> =
        STEPS.iter().filter(|step| left_out.is_none() || step.name != MSRV).collect();
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
    println!("{}", summary(&steps, &outcomes, left_out.as_ref()));
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
fn summary(steps: &[&Step], outcomes: &[Outcome], left_out: Option<&Failure>) -> String {
    let mut lines = vec![String::new()];
    for (index, step) in steps.iter().enumerate() {
        lines.push(match outcomes.get(index) {
            Some(Outcome { took, failure: None }) => row(step.name, "passed", Some(*took)),
            Some(Outcome { took, .. }) => row(step.name, "FAILED", Some(*took)),
            None => row(step.name, "not run", None),
        });
    }
    if let Some(why) = left_out {
        lines.push(format!("\nNOT CHECKED: {MSRV}\n{why}"));
    }
    for (step, outcome) in steps.iter().zip(outcomes) {
        if let Some(failure) = &outcome.failure {
            let again = step.cargo.join(" ");
            lines.push(format!("\nFAILED: {}\n{failure}\n  again: cargo {again}", step.name));
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let not_checked = left_out.map(|_| ", 1 not checked").unwrap_or_default();
    lines.push(format!("\n{} passed, {failed} failed{not_checked}", outcomes.len() - failed));
    lines.join("\n")
}

fn row(name: &str, verdict: &str, took: Option<Duration>) -> String {
    match took {
        Some(took) => format!("{name:<8} {verdict:<8} {:>7.1} s", took.as_secs_f64()),
        None => format!("{name:<8} {verdict}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failure: Option<&str>) -> Outcome {
        Outcome { took: Duration::from_secs(2), failure: failure.map(Into::into) }
    }

    #[test]
    fn the_summary_ends_with_the_failure_and_the_count() {
        let steps: Vec<&Step> = STEPS.iter().collect();
        let text = summary(&steps, &[outcome(None), outcome(Some("why"))], None);
        assert!(
            text.contains("tools    passed       2.0 s\nlint     FAILED       2.0 s\n"),
            "{text}"
        );
        assert!(text.contains("soak     not run"), "{text}");
        let end = "\nFAILED: lint\nwhy\n  again: cargo xtask lint\n\n1 passed, 1 failed";
        assert!(text.ends_with(end), "{text}");
    }
    #[test]
    fn the_summary_says_what_was_left_out() {
        let text = summary(&[&STEPS[0]], &[outcome(None)], Some(&Failure::new("out of reach")));
        let end = "\nNOT CHECKED: msrv\nout of reach\n\n1 passed, 0 failed, 1 not checked";
        assert!(text.ends_with(end), "{text}");
    }
}
