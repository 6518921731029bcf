//! An event as text.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// An event, put into words.
#[derive(Clone, Debug)]
pub struct Record {
    /// How bad it is.
    pub level: Level,
    /// The part of Braid that says it.
    pub target: &'static str,
    /// Its message, and after it the fields, ` name=value` each.
    pub text: String,
    /// The file of its source.
    pub file: &'static str,
    /// The line there, from 1.
    pub line: u32,
}

impl From<&Event<'_>> for Record {
    fn from(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut words = Words::default();
        event.record(&mut words);
        Record {
            level: *metadata.level(),
            target: metadata.target(),
            text: words.message + &words.fields,
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
        }
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
