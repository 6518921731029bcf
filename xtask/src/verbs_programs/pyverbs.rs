//! pyverbs' own suite, from Debian's package: tests of libibverbs and librdmacm that others wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use braid_lab::VethPair;

use super::{MTU, alone, print_note, print_row};
use crate::{Failure, process};

/// Where the package has it, partly packed.
const SUITE: &str = "/usr/share/doc/rdma-core/tests";
const LIMIT: Duration = Duration::from_secs(300);

/// Tests that fail, and why.
const FAILURES: &[(&str, &str)] = &[
    ("test_mr_rereg_pd", "a receive of another domain is refused when it is posted"),
    ("test_resize_cq", "a completion queue is never made smaller"),
];

/// The beginnings of the reasons for which tests are skipped.
const SKIPPED: &[&str] = &[
    "Allocating dmabuf is not supported",
    "Can not run the test over non",
    "Could not open mlx5 context",
    "Create Extended CQ is not supported",
    "Create Raw Packet QP",
    "Create QP type 8 is not supported",
    "Create XRCD is not supported",
    "Create custom mr with additional access flags",
    "Create memory window",
    "Device /dev/dri/",
    "Device memory is not supported",
    "Extended CQ is not supported",
    "Extended QP is not supported",
    "Importing a device is not supported",
    "Lack of permission to access /dev/dri/",
    "Multicast is not supported",
    "ODP is not supported",
    "PCI device must be passed",
    "Parent Domain is not supported",
    "Query device real time is not supported",
    "Reg MR with MW access is not supported",
    "There are no huge pages",
    "cuda-python",
    "All gid indices populated",
];
/// Most tests that may be skipped and fewest that have to pass.
const MOST_SKIPPED: usize = 185;
const FEWEST_PASSED: usize = 86;

/// Outcomes of the suite.
#[derive(Default, PartialEq, Eq, Debug)]
struct Outcomes {
    passed: usize,
    /// Reasons.
    skipped: Vec<String>,
    /// Names.
    failed: Vec<String>,
}

/// Runs the suite and compares its outcomes with the budget. It has a host of its own: a bound
/// loopback address names no device yet, and the tests of rdma_cm want one.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    let suite = unpacked(logs)?;
    let hosts = VethPair::up("pyverbs", MTU)?;
    let mut command = hosts.command_on(0, braid_run);
    // Debian's Python, which the package is for.
    command.args(["--quiet", "/usr/bin/python3"]).arg(suite.join("tests/run_tests.py"));
    command.args(["-v", "--dev", "braid0", "--port", "1", "--gid", "0"]);
    let log = logs.join("pyverbs.log");
    let report = alone::run(&mut command, &log, LIMIT)?;
    let outcomes = outcomes(&report.said);
    let (passed, skipped) = (outcomes.passed, outcomes.skipped.len());
    let failed = outcomes.failed.len();
    let counts = format!("{passed} passed, {skipped} skipped, {failed} failed");
    print_row("pyverbs", &counts, &[], report.seconds);
    for name in &outcomes.failed {
        let why = FAILURES.iter().find(|(known, _)| known == name).map_or("?", |(_, why)| why);
        print_note("", &format!("{name}: {why}"));
    }
    let complaints = complaints(&outcomes);
    if complaints.is_empty() {
        return Ok(());
    }
    let text = format!("pyverbs: {}; see {}", complaints.join("; "), log.display());
    Err(Failure::new(text))
}

/// Every breach of the budget.
fn complaints(outcomes: &Outcomes) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_known = |name: &&String| FAILURES.iter().any(|(known, _)| known == name);
    let unknown = outcomes.failed.iter().filter(|name| !is_known(name));
    complaints.extend(unknown.map(|name| format!("{name} fails")));
    let is_named = |reason: &&String| SKIPPED.iter().any(|known| reason.starts_with(known));
    let unnamed = outcomes.skipped.iter().filter(|reason| !is_named(reason));
    complaints.extend(unnamed.map(|reason| format!("a test is skipped because `{reason}`")));
    if outcomes.skipped.len() > MOST_SKIPPED {
        complaints.push(format!("more than {MOST_SKIPPED} tests are skipped"));
    }
    if outcomes.passed < FEWEST_PASSED {
        complaints.push(format!("fewer than {FEWEST_PASSED} tests pass"));
    }
    complaints
}

/// The outcomes that unittest's verbose output names. The outcome of a test ends its line, or a
/// later one if the test says something.
fn outcomes(said: &str) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for line in said.lines() {
        if line == "ok" || line.ends_with(" ok") {
            outcomes.passed += 1;
        } else if let Some((_, reason)) = line.split_once("skipped ") {
            let quotes: &[char] = &['\'', '"'];
            outcomes.skipped.push(reason.trim_matches(quotes).to_owned());
        } else if let Some(name) = ["ERROR: ", "FAIL: "].iter().find_map(|p| line.strip_prefix(p)) {
            let name = name.split_whitespace().next().unwrap_or(name);
            outcomes.failed.push(name.to_owned());
        }
    }
    outcomes
}

/// A copy of the suite that Python can read.
fn unpacked(logs: &Path) -> Result<PathBuf, Failure> {
    let folder = logs.join("pyverbs");
    // An earlier run's, perhaps of another version.
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    process::run(Command::new("cp").arg("-r").arg(SUITE).arg(folder.join("tests")))
        .map_err(|failure| failure.remedy("as root: cargo xtask tools"))?;
    process::run(Command::new("gunzip").arg("-r").arg(folder.join("tests")))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
test_a (tests.test_a.A.test_a) ... ok
test_b (tests.test_a.A.test_b)
Tests b. ... skipped 'ODP is not supported - No ODP caps'
test_c (tests.test_a.A.test_c) ... is_fork_initialized() = 2
ok
test_d (tests.test_a.A.test_d) ... skipped \"Can't be\"
test_e (tests.test_a.A.test_e) ... ERROR

ERROR: test_e (tests.test_a.A.test_e)
Ran 5 tests in 1.0s
FAILED (errors=1, skipped=2)
";

    #[test]
    fn outcomes_are_counted_and_what_is_not_in_the_budget_is_named() {
        let outcomes = outcomes(SAID);
        let skipped = ["ODP is not supported - No ODP caps", "Can't be"].map(str::to_owned);
        let failed = vec!["test_e".to_owned()];
        assert_eq!(outcomes, Outcomes { passed: 2, skipped: skipped.to_vec(), failed });
        let complaints = complaints(&outcomes);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].contains("test_e") && complaints[1].contains("Can't be"));
        assert!(complaints[2].contains("pass"));
    }
}
