//! Events as lines on standard error.

use std::ffi::OsString;
use std::io::{self, Write};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::{Filter, FilterError, Record, show};

/// Shows on standard error what the environment asks for, and where it asks for nothing, warnings
/// of connections that do without something. `read` as for [`Filter::from_environment`].
///
/// # Errors
/// The variable is not a filter.
pub fn from_environment(read: impl FnOnce(&str) -> Option<OsString>) -> Result<(), FilterError> {
    Filter::from_environment(read).map(|filter| to_stderr(filter.unwrap_or_else(Filter::unasked)))
}

/// Writes the events that pass the filter to standard error: time (UTC), level, target and text.
/// The events of a program with its own `tracing` subscriber stay there.
pub fn to_stderr(filter: Filter) {
    // Taken: they are shown already.
    let _ = show(filter, |record| {
        // One call keeps lines of several processes apart. A closed standard error is ignored.
        let _ = io::stderr().write_all(line(record).as_bytes());
    });
}

fn line(Record { level, target, text, .. }: &Record) -> String {
    let mut time = String::new();
    // A clock that cannot be read leaves the time out.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    format!("{time} {level:>5} {target}: {text}\n")
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_line_says_when_how_bad_and_who() {
        let record = Record {
            level: Level::WARN,
            target: "braid::worker",
            text: "queue pair ended qp=3".into(),
            file: "",
            line: 0,
        };
        let line = line(&record);
        let (time, rest) = line.split_once(' ').expect("blanks");
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert_eq!(rest, " WARN braid::worker: queue pair ended qp=3\n");
    }
}
