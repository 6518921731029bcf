//! The checks of November 2026, before nightly took over a part of them: each runs still.

use std::collections::BTreeSet;

use super::SANITIZED;
use super::steps::{COUNT, lanes};
use crate::lanes::Step;
use crate::{nightly, tree};

/// The commands of that time, in their order, and the steps or parts that do the same now. Without
/// any the very same command has to be in one of the lists.
const COMMANDS: [(&str, &[&str]); 27] = [
    // `benches` builds the runner of instruction counts.
    ("xtask tools", &["tools", "benches"]),
    ("xtask lint", &[]),
    // Packages with unsafe code are tested under AddressSanitizer only.
    ("test --workspace", &["test", "doctests", "address"]),
    ("xtask recipe", &[]),
    ("xtask dependencies", &[]),
    ("xtask advisories", &[]),
    ("xtask package", &[]),
    ("xtask msrv", &[]),
    // All programs but that of the project's own commands.
    ("build --workspace --release --bins", &["build"]),
    ("xtask count", &[]),
    ("xtask e2e", &[]),
    ("xtask wireshark", &[]),
    ("xtask c", &[]),
    ("xtask verbs-programs", &[]),
    ("xtask deb --check", &[]),
    ("xtask fabric check", &[]),
    ("run --release --bin braid-perf -- spray --quick", &[]),
    ("run --release --bin braid-perf -- congestion --quick", &[]),
    (
        "run --release --bin braid-perf -- compare --complete --rounds=1 --seconds=0.1 --mtu=9000 \
         --only=message-rate,latency-spinning",
        &[],
    ),
    ("xtask flood", &[]),
    ("run --release --bin nccl-conformance -- --quick", &[]),
    ("xtask softroce", &[]),
    ("xtask loom", &[]),
    ("xtask sanitize", &["address", "thread"]),
    ("xtask fuzz --seconds 10", &[]),
    ("xtask soak --first 10000 --seeds 20000", &[]),
    ("xtask soak --of connections --first 10000 --seeds 2000", &[]),
];

fn all() -> Vec<Step> {
    let lanes = lanes();
    let steps = lanes.iter().map(|lane| lane.steps.as_slice());
    let steps = steps.chain([[COUNT].as_slice(), nightly::PARTS, nightly::OUTSIDE_CI]);
    steps.collect::<Vec<_>>().concat()
}

#[test]
fn every_check_of_november_runs_still() {
    let steps = all();
    for (command, successors) in COMMANDS {
        let missing = match successors {
            [] => !steps.iter().any(|step| step.cargo.join(" ") == command),
            names => !names.iter().all(|name| steps.iter().any(|step| step.name == *name)),
        };
        assert!(!missing, "`cargo {command}` ran in November 2026 and does not now");
    }
}

#[test]
fn no_two_steps_have_the_same_name() {
    let steps = all();
    let names: BTreeSet<&str> = steps.iter().map(|step| step.name).collect();
    assert_eq!(names.len(), steps.len());
}

#[test]
fn every_test_of_a_package_runs_once() {
    let steps = all();
    let command = |name: &str| steps.iter().find(|step| step.name == name).expect(name).cargo;
    let words = |name: &str, before: &str| -> Vec<&str> {
        let pairs = command(name).windows(2).filter(|pair| pair[0] == before);
        pairs.map(|pair| pair[1]).collect()
    };
    assert_eq!(words("test", "--exclude"), SANITIZED);
    assert_eq!(words("doctests", "-p"), SANITIZED);
    let metadata = tree::metadata().expect("a workspace");
    for name in SANITIZED {
        assert!(metadata.packages.iter().any(|package| package.name.as_str() == *name), "{name}");
    }
}
