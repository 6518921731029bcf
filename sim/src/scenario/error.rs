//! Errors in scenarios, with their place.

use std::fmt;
use std::ops::Range;

use toml::Spanned;

/// A scenario that cannot be run. The message is one line: file, line, error and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1. `None`: the error concerns the whole file.
    pub line: Option<usize>,
    /// The error and the remedy.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// The reason why a key is refused, and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) at: Range<usize>,
    pub(super) what: String,
}

impl Refusal {
    pub(super) fn of<T>(key: &Spanned<T>, what: impl Into<String>) -> Refusal {
        Refusal { at: key.span(), what: what.into() }
    }
}

/// The text of a scenario, which maps byte offsets to lines.
#[derive(Clone, Debug)]
pub(super) struct SourceText {
    pub(super) file: String,
    pub(super) text: String,
}

impl SourceText {
    /// Creates an error at a byte range.
    pub(super) fn error(&self, at: Range<usize>, what: impl fmt::Display) -> ScenarioError {
        let before = self.text.as_bytes().iter().take(at.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        ScenarioError { line: Some(line), ..self.whole(what) }
    }

    /// Creates an error about the whole file.
    pub(super) fn whole(&self, what: impl fmt::Display) -> ScenarioError {
        // An error is one line, so the lines of the parser are joined.
        let what = what.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        ScenarioError { file: self.file.clone(), line: None, what }
    }

    /// Converts an error of the TOML parser.
    pub(super) fn toml(&self, error: &toml::de::Error) -> ScenarioError {
        match error.span() {
            Some(at) => self.error(at, error.message()),
            None => self.whole(error.message()),
        }
    }
}
