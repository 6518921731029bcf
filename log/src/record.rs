//! An event as text.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// An event as text.
#[derive(Clone, Debug)]
pub struct Record {
    /// The severity.
    pub level: Level,
    /// The module of Braid that logs the event.
    pub target: &'static str,
    /// The message, followed by the fields as ` name=value`.
    pub text: String,
    /// The source file.
    pub file: &'static str,
    /// The line in the source file, from 1.
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
