//! Building and running the counted benchmarks: gungraun's, with valgrind below them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use cargo_metadata::{Metadata, Package, TargetKind};
use serde_json::Value;

use crate::gungraun_runner::{self, LIBRARY, PROGRAM};
use crate::{Failure, process, tree};

/// Only instructions count. A container may forbid to switch address randomisation off; the counts
/// are the same.
const ARGUMENTS: &[&str] =
    &["--callgrind-args=--cache-sim=no", "--allow-aslr=yes", "--output-format=json"];

/// Builds all cases.
pub(super) fn build() -> Result<(), Failure> {
    process::run(bench(&tree::metadata()?).arg("--no-run"))
}

/// Runs all cases. Returns what each took.
pub(super) fn count() -> Result<BTreeMap<String, u64>, Failure> {
    let metadata = tree::metadata()?;
    let mut path = gungraun_runner::folder(&metadata)?.join("bin").into_os_string();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    let mut command = bench(&metadata);
    command.env("PATH", path).arg("--").args(ARGUMENTS).stderr(Stdio::inherit());
    parse(&process::output(&mut command)?)
}

/// The command that builds and runs all cases.
fn bench(metadata: &Metadata) -> Command {
    let mut command = tree::cargo();
    command.args(["bench", "--quiet"]).args(selection(metadata));
    command
}

/// The arguments that pick these benchmarks, and no others, out of the workspace. No package is
/// named: with the features of the whole workspace, what is built serves other steps, too.
fn selection(metadata: &Metadata) -> Vec<String> {
    let counted = |package: &&Package| package.dependencies.iter().any(|d| d.name == LIBRARY);
    let mut arguments = Vec::new();
    for package in metadata.packages.iter().filter(counted) {
        let benches = package.targets.iter().filter(|t| t.kind.contains(&TargetKind::Bench));
        arguments.extend(benches.flat_map(|bench| ["--bench".into(), bench.name.clone()]));
    }
    arguments
}

/// Reads a summary of each case, one in a line.
fn parse(text: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let unknown = || Failure::new(format!("{PROGRAM} says what is not understood: {line}"));
        let summary: Value = serde_json::from_str(line).map_err(|_| unknown())?;
        let (case, count) = case_of(&summary).ok_or_else(unknown)?;
        if counts.insert(case.clone(), count).is_some() {
            return Err(Failure::new(format!("two cases are called {case}")));
        }
    }
    Ok(counts)
}

/// `FOLDER/BENCH/FUNCTION/CASE` and what it took.
fn case_of(summary: &Value) -> Option<(String, u64)> {
    let text = |key: &str| summary[key].as_str();
    let (bench, _) = text("module_path")?.split_once("::")?;
    let case = [text("package_dir")?, bench, text("function_name")?, text("id")?].join("/");
    let profiles = summary["profiles"].as_array()?;
    let profile = profiles.iter().find(|profile| profile["tool"] == "Callgrind")?;
    let count = profile["data"]["total"]["metrics"]["Ir"]["values"]["new"].as_u64()?;
    Some((case, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = r#"{"package_dir":"lb","module_path":"batches::batches::round","function_name":"round","id":"pro","profiles":[{"tool":"Callgrind","data":{"total":{"metrics":{"Ir":{"values":{"new":22656}}}}}}]}"#;

    #[test]
    fn a_summary_names_the_case_and_its_instructions() {
        let counts = parse(&format!("{SUMMARY}\n\n")).expect("a summary");
        assert_eq!(counts, BTreeMap::from([("lb/batches/round/pro".into(), 22656)]));
    }

    #[test]
    fn what_is_no_summary_is_a_failure() {
        for line in ["{}", "hello", &SUMMARY.replace("22656", "\"many\"")] {
            assert!(parse(line).expect_err("no summary").to_string().contains(line));
        }
        let twice = parse(&format!("{SUMMARY}\n{SUMMARY}")).expect_err("the same name");
        assert_eq!(twice.to_string(), "two cases are called lb/batches/round/pro");
    }

    #[test]
    fn the_workspace_has_benchmarks() {
        let metadata = tree::metadata().expect("a workspace");
        assert!(selection(&metadata).windows(2).any(|two| two == ["--bench", "messages"]));
    }
}
