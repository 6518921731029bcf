//! Reading scenario files.

use std::fs;
use std::path::Path;

use super::error::SourceText;
use super::quantity::Parsed;
use super::traffic::{WorkloadFile, WorkloadKeys};
use super::{DEFAULT_LIMIT, Keys, MOST_RUNS, MOST_SAMPLES, Scenario, ScenarioError};
use crate::time::Ps;
use crate::workload::goal::{Goal, GoalError, TracePlace};
use crate::workload::matrix::Matrix;
use crate::workload::{Sizes, SizesError};

/// Opens a file that a scenario names. Returns its full name, for errors, and its content.
pub type OpenFile<'a> = dyn Fn(&str) -> Result<(String, Vec<u8>), ScenarioError> + 'a;

impl Scenario {
    /// Reads a scenario and the files that it names, whose paths are relative to it.
    ///
    /// # Errors
    /// The file cannot be read, or has an error.
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = read_text(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Scenario::parse(&path.display().to_string(), &text, &|name| {
            let path = folder.join(name);
            Ok((path.display().to_string(), read_bytes(&path)?))
        })
    }

    /// Parses a scenario; `file` is its name, for errors, and `open` opens the files that it names.
    ///
    /// # Errors
    /// The text has an error.
    pub fn parse(file: &str, text: &str, open: &OpenFile<'_>) -> Result<Scenario, ScenarioError> {
        let source = SourceText { file: file.to_owned(), text: text.to_owned() };
        let keys: Keys = toml::from_str(text).map_err(|error| source.toml(&error))?;
        let runs = match &keys.runs {
            None => 1,
            Some(runs) if (1..=MOST_RUNS).contains(runs.get_ref()) => *runs.get_ref(),
            Some(runs) => {
                let what =
                    format!("runs = {} is not possible; give 1 to {MOST_RUNS}", runs.get_ref());
                return Err(source.error(runs.span(), what));
            }
        };
        if let Some(every) = &keys.sample {
            let limit = keys.limit.map_or(DEFAULT_LIMIT, |Parsed(limit)| limit);
            let least = Ps(limit.0.div_ceil(MOST_SAMPLES).max(1));
            if every.get_ref().0 < least {
                let what = format!(
                    "a sample every {} may be more than {MOST_SAMPLES} samples; give at least \
                     {least}, or lower `limit`",
                    every.get_ref().0
                );
                return Err(source.error(every.span(), what));
            }
        }
        let mut files = Vec::new();
        for workload in &keys.workload {
            let read = |(named, parse): (&str, ParseFile)| {
                let (file, bytes) = open(named).map_err(|error| match error.line {
                    Some(_) => error,
                    // The error is in the scenario, which names a missing file.
                    None => source.error(workload.span(), error),
                })?;
                parse(&file, bytes)
            };
            files.push(named_file(workload.get_ref()).map(read).transpose()?);
        }
        let name = match keys.name.is_empty() {
            true => Path::new(file).file_stem().map_or(file.into(), |name| name.to_string_lossy()),
            false => keys.name.as_str().into(),
        };
        Ok(Scenario {
            name: name.into_owned(),
            about: keys.about.clone(),
            seed: keys.seed.unwrap_or(1),
            runs,
            model: keys.model.map_or_else(Default::default, |Parsed(model)| model),
            source,
            files,
            keys,
        })
    }
}

fn read_text(path: &Path) -> Result<String, ScenarioError> {
    text(&path.display().to_string(), read_bytes(path)?)
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, ScenarioError> {
    fs::read(path).map_err(|error| ScenarioError {
        file: path.display().to_string(),
        line: None,
        what: format!("cannot be read: {error}"),
    })
}

fn text(file: &str, bytes: Vec<u8>) -> Result<String, ScenarioError> {
    String::from_utf8(bytes).map_err(|error| ScenarioError {
        file: file.to_owned(),
        line: None,
        what: format!("is no text: {}; save it as UTF-8", error.utf8_error()),
    })
}

/// Parses a file of this name and content.
type ParseFile = fn(&str, Vec<u8>) -> Result<WorkloadFile, ScenarioError>;

/// Returns the file that a workload names, and its parser.
fn named_file(workload: &WorkloadKeys) -> Option<(&str, ParseFile)> {
    let WorkloadKeys { matrix, poisson, goal, .. } = workload;
    let matrix = matrix.as_ref().map(|keys| (keys.file.as_str(), read_matrix as ParseFile));
    let sizes = poisson.as_ref().and_then(|keys| keys.file.as_deref());
    let sizes = sizes.map(|file| (file, read_sizes as ParseFile));
    matrix.or(sizes).or(goal.as_ref().map(|keys| (keys.file.as_str(), read_goal as ParseFile)))
}

fn read_matrix(file: &str, bytes: Vec<u8>) -> Result<WorkloadFile, ScenarioError> {
    parse_matrix(file, bytes).map(|matrix| WorkloadFile::Matrix(matrix.workload))
}

fn read_sizes(file: &str, bytes: Vec<u8>) -> Result<WorkloadFile, ScenarioError> {
    let text = text(file, bytes)?;
    Sizes::parse(&text)
        .map(WorkloadFile::Sizes)
        .map_err(|SizesError { line, what }| ScenarioError { file: file.to_owned(), line, what })
}

fn read_goal(file: &str, bytes: Vec<u8>) -> Result<WorkloadFile, ScenarioError> {
    parse_goal(file, &bytes).map(WorkloadFile::Goal)
}

pub(super) fn parse_matrix(file: &str, bytes: Vec<u8>) -> Result<Matrix, ScenarioError> {
    Matrix::parse(file, &text(file, bytes)?).map_err(|error| ScenarioError {
        file: error.file,
        line: Some(error.line),
        what: error.problem.to_string(),
    })
}

pub(super) fn parse_goal(file: &str, bytes: &[u8]) -> Result<Goal, ScenarioError> {
    Goal::parse(bytes).map_err(|GoalError { place, problem }| {
        let (line, what) = match place {
            TracePlace::Line(line) => (Some(line as usize), problem.to_string()),
            TracePlace::Byte(_) => (None, format!("{place}: {problem}")),
        };
        ScenarioError { file: file.to_owned(), line, what }
    })
}
