//! The error of a command.

use std::fmt;

/// An error message with the remedy, if one is known.
#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: Option<String>,
}

impl Failure {
    /// A failure that explains itself.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None }
    }

    /// Adds what the reader should do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
