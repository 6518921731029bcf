//! Events as lines on standard error.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::{Filter, FilterError, Record, VARIABLE, show};

/// Shows on standard error what the environment asks for, and where it asks for nothing, warnings,
/// each once. `read` as for [`Filter::from_environment`].
///
/// # Errors
/// The variable is not a filter.
pub fn from_environment(read: impl FnOnce(&str) -> Option<OsString>) -> Result<(), FilterError> {
    match Filter::from_environment(read)? {
        Some(filter) => to_stderr(filter),
        None => warnings_to_stderr(),
    }
    Ok(())
}

/// Writes each warning once to standard error.
fn warnings_to_stderr() {
    let seen = Mutex::new(Seen::default());
    // Taken: they are shown already.
    let _ = show(Filter::unasked(), move |record| {
        let text = seen.lock().unwrap_or_else(PoisonError::into_inner).lines(record);
        // A closed standard error is ignored.
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Distinct texts of one call site that are shown: peers and queue pairs are many.
const MOST_OF_A_KIND: usize = 8;

/// The warnings so far, by their place in the source.
#[derive(Default)]
struct Seen(HashMap<(&'static str, u32), HashSet<String>>);

impl Seen {
    /// Returns the line of a warning. Empty: it, or enough of its kind, has been shown.
    fn lines(&mut self, record: &Record) -> String {
        let texts = self.0.entry((record.file, record.line)).or_default();
        if texts.len() > MOST_OF_A_KIND || !texts.insert(record.text.clone()) {
            return String::new();
        }
        if texts.len() > MOST_OF_A_KIND {
            let text = format!("no more of these are shown; {VARIABLE}=warn shows all");
            return line(&Record { text, ..record.clone() });
        }
        line(record)
    }
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

    fn record(line: u32, text: String) -> Record {
        Record { level: Level::WARN, target: "braid::worker", text, file: "worker.rs", line }
    }

    #[test]
    fn a_warning_is_shown_once_and_a_kind_of_them_eight_times() {
        let mut seen = Seen::default();
        assert!(seen.lines(&record(1, "degraded peer=a".into())).contains("peer=a"));
        assert_eq!(seen.lines(&record(1, "degraded peer=a".into())), "");
        assert!(seen.lines(&record(2, "degraded peer=a".into())).contains("peer=a"));
        let rest = (0..100).map(|peer| seen.lines(&record(1, format!("degraded peer={peer}"))));
        let rest: Vec<String> = rest.filter(|line| !line.is_empty()).collect();
        assert_eq!(rest.len(), MOST_OF_A_KIND);
        assert!(rest.last().is_some_and(|line| line.contains("BRAID_LOG=warn shows all")));
        assert!(rest.iter().rev().skip(1).all(|line| line.contains("degraded peer=")));
    }

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
