//! `braid-sim run` and `braid-sim matrix`.

use std::path::{Path, PathBuf};

use braid_sim::report::{
    Report, RunFailure, make_folder, run_scenario, table, write_json, write_text,
};
use braid_sim::scenario::{Scenario, ScenarioError};
use serde_json::Value;

use crate::cli::{MatrixArgs, Output, RunArgs};
use crate::failure::Failure;
use crate::{progress, scenarios, stdio};

/// Runs scenarios from files.
///
/// # Errors
/// A scenario has an error, a run fails, or its results cannot be written.
pub(crate) fn run_scenarios(args: &RunArgs) -> Result<(), Failure> {
    let files = args.files.iter().map(|file| scenarios::file(file));
    let files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    let read = |file: &PathBuf| {
        let mut scenario = Scenario::read(file)?;
        scenario.seed = args.seed.unwrap_or(scenario.seed);
        scenario.runs = args.runs.unwrap_or(scenario.runs);
        Ok(scenario)
    };
    finish(files.iter().map(read).collect(), &args.output)
}

/// Runs connection matrices.
///
/// # Errors
/// As [`run_scenarios`].
pub(crate) fn run_matrices(args: &MatrixArgs) -> Result<(), Failure> {
    let options = args.options();
    let read = |file: &PathBuf| Scenario::of_matrix(file, &options);
    finish(args.files.iter().map(read).collect(), &args.output)
}

fn finish(scenarios: Result<Vec<Scenario>, ScenarioError>, output: &Output) -> Result<(), Failure> {
    run_all(&scenarios.map_err(RunFailure::from)?, output)
}

fn run_all(scenarios: &[Scenario], output: &Output) -> Result<(), Failure> {
    // Plans all scenarios first, so that an error in the last is not reported an hour later.
    let bars = scenarios.iter().map(|scenario| progress::bar(&scenario.name, scenario));
    let bars: Vec<_> = bars.collect::<Result<_, _>>()?;
    let mut reports = Vec::new();
    for (scenario, bar) in scenarios.iter().zip(bars) {
        let folder = output.out.as_deref().map(|out| folder(out, scenario, scenarios.len()));
        folder.as_deref().map_or(Ok(()), make_folder)?;
        let report = run_scenario(scenario, folder.as_deref(), &|bytes| bar.inc(bytes));
        bar.finish_and_clear();
        let report = report?;
        if let Some(folder) = folder {
            write_json(&folder.join("report.json"), &report.to_json())?;
            write_text(&folder.join("table.txt"), &table(std::slice::from_ref(&report)))?;
        }
        reports.push(report);
    }
    stdio::print_tables(&table(&reports), output.json.as_deref())?;
    stdio::write_json(&json(&reports), output.json.as_deref())
}

fn folder(out: &Path, scenario: &Scenario, scenarios: usize) -> PathBuf {
    if scenarios == 1 { out.to_owned() } else { out.join(&scenario.name) }
}

fn json(reports: &[Report]) -> Value {
    match reports {
        [only] => only.to_json(),
        several => several.iter().map(Report::to_json).collect(),
    }
}
