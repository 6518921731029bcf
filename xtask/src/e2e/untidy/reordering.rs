//! Paths that reorder by themselves, emulated.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::case::UntidyCase;
use crate::{Failure, process};

pub(super) const CASES: &[UntidyCase] =
    &[UntidyCase { name: "paths that reorder by themselves", run: reordering }];

/// Minimum goodput as a share of the link's rate, over two seconds on a busy machine, where it was
/// once 0.39. A sender that takes reordering for loss reaches 0.1.
const LEAST_GOODPUT: f64 = 0.25;
/// Retransmissions that were unnecessary, of all segments. Where reordering is taken for loss: 3.
const MOST_NEEDLESS_PERCENT: f64 = 1.0;

fn reordering(braid_perf: &Path) -> Result<(), Failure> {
    let arguments = "congestion --only reordering --cc cubic --rounds 1 --seconds 2 --json -";
    let said = process::output(Command::new(braid_perf).args(arguments.split(' ')))?;
    let results: Value = serde_json::from_str(&said)
        .map_err(|why| Failure::new(format!("`{arguments}` says no JSON: {why}")))?;
    let cases = results["cases"].as_array().map_or(&[][..], Vec::as_slice);
    if cases.is_empty() {
        return Err(Failure::new(format!("`{arguments}` has measured nothing")));
    }
    cases.iter().try_for_each(judge)
}

fn judge(case: &Value) -> Result<(), Failure> {
    let name = case["case"].as_str().unwrap_or("a case without a name");
    let median = |figure: &str| case["medians"][figure].as_f64().unwrap_or(f64::NAN);
    let (goodput, needless) = (median("goodput_over_capacity"), median("spurious_percent"));
    println!("untidy: {name}: {goodput:.3} of the link, {needless:.2} % needless");
    if goodput >= LEAST_GOODPUT && needless <= MOST_NEEDLESS_PERCENT {
        return Ok(());
    }
    let expected = format!("at least {LEAST_GOODPUT} and at most {MOST_NEEDLESS_PERCENT} %");
    Err(Failure::new(format!(
        "{name}: {goodput:.3} of the link and {needless:.2} % sent needlessly instead of {expected}"
    )))
}
