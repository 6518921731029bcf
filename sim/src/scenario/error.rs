//! What is wrong with a scenario, and where.

use std::fmt;
use std::ops::Range;

/// A scenario that cannot be run: file, line, what is wrong and what would be right, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The file, as it was named.
    pub file: String,
    /// From 1 on; `None`: it concerns the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and the remedy.
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

/// A scenario's text, to say where something stands in it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

impl Source {
    /// Something is wrong with what stands at these bytes.
    pub(super) fn error(&self, at: Range<usize>, what: impl fmt::Display) -> ScenarioError {
        let before = self.text.as_bytes().iter().take(at.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        ScenarioError { line: Some(line), ..self.whole(what) }
    }

    /// Something is wrong with the file as a whole.
    pub(super) fn whole(&self, what: impl fmt::Display) -> ScenarioError {
        // An error is one line, whatever the parser had to say.
        let what = what.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        ScenarioError { file: self.file.clone(), line: None, what }
    }

    /// TOML that cannot be read, or a key or value that is refused.
    pub(super) fn toml(&self, error: &toml::de::Error) -> ScenarioError {
        match error.span() {
            Some(at) => self.error(at, error.message()),
            None => self.whole(error.message()),
        }
    }
}
