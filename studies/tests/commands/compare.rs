//! `braid-sim compare`: every pair of policies has a row in a table that fits a terminal, and a bar
//! in the plot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios").join(name)
}

fn compare(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-sim"));
    command.arg("compare").arg(file).args(args).output().expect("braid-sim starts")
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn every_pair_is_run_with_the_recovery_that_ships() {
    let folder = scratch("compare");
    let path = folder.to_str().expect("a path of the tests is text");
    // The recovery of the scenario is `ideal`.
    let file = scenario("degraded-link.toml");
    let args = ["--lb", "pro,ecmp", "--cc", "fixed:256K,dcqcn:line=100G,alpha=2us", "--out", path];
    let done = compare(&file, &args);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).expect("text");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    // Lines may be wrapped between any two words.
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("recovery fifo-path"), "{said}");
    let controllers = ["fixed:256K", "dcqcn:line=100G,alpha=2us"];
    for (lb, cc) in ["pro", "ecmp"].into_iter().flat_map(|lb| controllers.map(|cc| (lb, cc))) {
        let is_row = |line: &str| line.split_whitespace().take(2).eq([lb, cc]);
        assert!(said.lines().any(is_row), "{lb} with {cc} is not in\n{said}");
    }
    let json = fs::read_to_string(folder.join("report.json")).expect("it is written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let compared = json["compared"].as_array().expect("a list");
    assert_eq!(compared.len(), 4);
    assert!(compared.iter().all(|one| one["recovery"] == "fifo-path" && one["slowdown"].is_f64()));
    assert_eq!(fs::read_to_string(folder.join("table.txt")).expect("it is written"), said);
    let plot = fs::read_to_string(folder.join("compare.svg")).expect("it is drawn");
    for name in ["pro", "ecmp", "fixed:256K", "longest queue [packets]", "packets sent again"] {
        assert!(plot.contains(name), "{name} is not in the plot");
    }
}

/// One pair of policies that does not finish hides no other.
#[test]
fn a_pair_without_a_result_is_named_beside_the_others() {
    let folder = scratch("unfinished");
    fs::create_dir_all(&folder).expect("a folder of the tests");
    let json = folder.join("report.json");
    // With one packet in flight a message takes a round trip of some 6 us for each of its packets.
    let args = ["--lb", "pro", "--cc", "fixed:1K,fixed:1M", "--limit", "300us", "--json"];
    let args = [&args[..], &[json.to_str().expect("text")]].concat();
    let done = compare(&scenario("permutation-pro.toml"), &args);
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stdout).expect("text");
    assert!(said.contains("No result: pro fixed:1K, seed 1:"), "{said}");
    let is_row = |line: &str| line.split_whitespace().take(2).eq(["pro", "fixed:1M"]);
    assert!(said.lines().any(is_row), "{said}");
    let why = String::from_utf8(done.stderr).expect("text");
    assert!(why.contains("1 of 2 pairs of policies have no result"), "{why}");
    let json: Value =
        serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    assert_eq!(json["compared"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["unfinished"][0]["cc"], "fixed:1K");
}

/// Runs a comparison and returns its table and results.
fn compared(name: &str, args: &[&str]) -> (String, Vec<Value>) {
    let folder = scratch(name);
    let path = folder.to_str().expect("a path of the tests is text");
    let done = compare(&scenario("link-failure.toml"), &[args, &["--out", path]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json = fs::read_to_string(folder.join("report.json")).expect("it is written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let said = String::from_utf8(done.stdout).expect("text");
    (said, json["compared"].as_array().expect("a list").clone())
}

#[test]
fn results_about_time_outs_are_named() {
    let (said, results) = compared("compare-timeouts", &["--lb", "ecmp,adaptive"]);
    assert!(said.contains("Time-outs dominate 2 of 2 results"), "{said}");
    for result in &results {
        let share = result["timeout_share"].as_f64().expect("a number");
        assert!((0.9..=1.0).contains(&share), "{share}");
    }
    // An ideal recovery needs no timer.
    let (said, results) =
        compared("compare-ideal", &["--lb", "ecmp,adaptive", "--recovery", "ideal"]);
    assert!(!said.contains("Time-outs"), "{said}");
    assert!(results.iter().all(|result| result["timeout_share"] == 0.0), "{results:?}");
}

#[test]
fn time_outs_are_as_short_as_wanted() {
    let (_, usual) = compared("compare-usual", &["--lb", "adaptive"]);
    let (_, short) = compared("compare-short", &["--lb", "adaptive", "--min-rto", "100us"]);
    let [usual, short] = [usual, short].map(|results| results[0]["cct_us"].as_f64().unwrap());
    // The scenario's shortest time-out is 10 ms.
    assert!(usual > 10_000.0 && short < 1_000.0, "{usual} and {short} us");
}

#[test]
fn the_limit_is_that_of_the_command_line() {
    let done = compare(&scenario("link-failure.toml"), &["--lb", "adaptive", "--limit", "1us"]);
    let says = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{says}");
    let words: Vec<&str> = says.split_whitespace().collect();
    assert!(words.join(" ").contains("not delivered after 1 us"), "{says}");
}

#[test]
fn a_seed_decides_everything() {
    let file = scenario("permutation-pro.toml");
    let run = |seed: &str| {
        let done = compare(&file, &["--lb", "oblivious", "--seed", seed, "--runs", "1"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = String::from_utf8(done.stdout).expect("text");
        said.lines().last().expect("a row").to_owned()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn errors_are_named() {
    let file = scenario("permutation-pro.toml");
    for (args, wanted) in [
        (&["--lb", "nonsense"][..], "round-robin"),
        (&["--lb", "pro", "--cc", "nonsense"], "dcqcn"),
        (&[], "--lb"),
        (&["--lb", "pro", "--min-rto", "100"], "`100` has no unit"),
        (&["--lb", "pro", "--min-rto", "20s"], "min_rto = 20s with max_rto"),
        (&["--lb", "pro", "--limit", "soon"], "`soon` is not a time"),
        (&["--lb", "pro", "--recovery", "nonsense"], "fifo-path"),
    ] {
        let done = compare(&file, args);
        let says = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {says}");
        assert!(says.contains(wanted), "{args:?}: {says}");
    }
    let done = compare(Path::new("/nonexistent.toml"), &["--lb", "pro"]);
    assert_eq!(done.status.code(), Some(2));
}
