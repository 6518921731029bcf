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
    ] {
        let done = compare(&file, args);
        let says = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {says}");
        assert!(says.contains(wanted), "{args:?}: {says}");
    }
    let done = compare(Path::new("/nonexistent.toml"), &["--lb", "pro"]);
    assert_eq!(done.status.code(), Some(2));
}
