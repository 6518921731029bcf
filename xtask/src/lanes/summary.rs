//! The last thing that `cargo xtask test` prints: what passed, what failed and why.

use std::cmp::Reverse;
use std::time::Duration;

use super::lane::Ran;
use crate::Failure;

/// A step that could not be run on this machine, and why.
pub(crate) type LeftOut = (&'static str, Failure);

/// Prints the summary, and ends the process if a step has failed.
pub(crate) fn end(ran: &[Ran], left_out: &[LeftOut], total: Duration) -> Result<(), Failure> {
    println!("{}", summary(ran, left_out, total));
    match ran.iter().all(Ran::has_passed) {
        true => Ok(()),
        // The summary has said it all, and its last line is to stay the last.
        false => std::process::exit(1),
    }
}

/// The table of steps, slowest first, what was left out and why, the story of each failure, and the
/// count. `total` is the time of everything.
fn summary(ran: &[Ran], left_out: &[LeftOut], total: Duration) -> String {
    let mut by_time: Vec<&Ran> = ran.iter().collect();
    by_time.sort_by_key(|ran| Reverse(ran.outcome.as_ref().map(|outcome| outcome.took)));
    let mut lines = vec![String::new()];
    lines.extend(by_time.into_iter().map(row));
    lines.push(format!("{:<18} {:<8} {:>7.1} s", "everything", "took", total.as_secs_f64()));
    for (name, why) in left_out {
        lines.push(format!("\nNOT CHECKED: {name}\n{why}"));
    }
    let failed = |ran: &&Ran| ran.outcome.is_some() && !ran.has_passed();
    for Ran { step, outcome } in ran.iter().filter(failed) {
        let failure = outcome.as_ref().and_then(|outcome| outcome.failure.as_deref());
        let again = step.cargo.join(" ");
        let (name, failure) = (step.name, failure.unwrap_or_default());
        lines.push(format!("\nFAILED: {name}\n{failure}\n  again: cargo {again}"));
    }
    let (passed, failed) =
        (ran.iter().filter(|ran| ran.has_passed()).count(), ran.iter().filter(failed).count());
    let not_checked = match left_out.len() {
        0 => String::new(),
        count => format!(", {count} not checked"),
    };
    lines.push(format!("\n{passed} passed, {failed} failed{not_checked}"));
    lines.join("\n")
}

/// The step's name, its verdict and its time. A part of nightly is called so.
fn row(ran: &Ran) -> String {
    let step = &ran.step;
    let name = if step.is_nightly { format!("nightly: {}", step.name) } else { step.name.into() };
    let Some(outcome) = &ran.outcome else { return format!("{name:<18} not run") };
    let verdict = if ran.has_passed() { "passed" } else { "FAILED" };
    format!("{name:<18} {verdict:<8} {:>7.1} s", outcome.took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::step::Step;
    use super::*;
    use crate::step::Outcome;

    fn ran(name: &'static str, seconds: u64, failure: Option<&str>) -> Ran {
        let took = Duration::from_secs(seconds);
        let step = Step::new(name, &["xtask", "lint"]);
        Ran { step, outcome: Some(Outcome { took, failure: failure.map(Into::into) }) }
    }

    fn total() -> Duration {
        Duration::from_secs(9)
    }

    #[test]
    fn the_slowest_step_is_first_and_the_failure_and_the_count_are_last() {
        let soak = Ran { step: Step::nightly("soak", &["xtask", "soak"]), outcome: None };
        let text =
            summary(&[ran("tools", 2, None), ran("lint", 3, Some("why")), soak], &[], total());
        let table = "\n\
                     lint               FAILED       3.0 s\n\
                     tools              passed       2.0 s\n\
                     nightly: soak      not run\n\
                     everything         took         9.0 s\n";
        assert!(text.starts_with(table), "{text}");
        let end = "\nFAILED: lint\nwhy\n  again: cargo xtask lint\n\n1 passed, 1 failed";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_summary_says_what_was_left_out() {
        let left_out = [("msrv", Failure::new("out of reach"))];
        let text = summary(&[ran("tools", 2, None)], &left_out, total());
        let end = "\nNOT CHECKED: msrv\nout of reach\n\n1 passed, 0 failed, 1 not checked";
        assert!(text.ends_with(end), "{text}");
    }
}
