//! The table of results, and the same as JSON.

use std::path::Path;

use braid_lab::table::aligned;
use serde::Serialize;
use serde_json::{Value, json};

use crate::process::Outcome;
use crate::speed::Measured;
use crate::table::Table;

/// All results.
#[derive(Default)]
pub(crate) struct Report {
    /// Name of the check, and its outcome for each table that it ran with.
    checks: Vec<(&'static str, Vec<(Table, Outcome)>)>,
    pub(crate) speed: Option<Measured>,
}

impl Report {
    pub(crate) fn add(&mut self, check: &'static str, version: Table, outcome: Outcome) {
        match self.checks.last_mut().filter(|(last, _)| *last == check) {
            Some((_, outcomes)) => outcomes.push((version, outcome)),
            None => self.checks.push((check, vec![(version, outcome)])),
        }
    }

    /// Returns whether every check passed. Speed does not count, because it depends on the machine.
    pub(crate) fn is_good(&self) -> bool {
        self.outcomes().all(|(.., outcome)| matches!(outcome, Outcome::Passed))
    }

    fn outcomes(&self) -> impl Iterator<Item = (&'static str, Table, &Outcome)> {
        self.checks.iter().flat_map(|(name, outcomes)| {
            outcomes.iter().map(|(version, outcome)| (*name, *version, outcome))
        })
    }

    pub(crate) fn print(&self) {
        if !self.checks.is_empty() {
            self.print_checks();
        }
        if let Some(speed) = &self.speed {
            speed.print();
        }
    }

    fn print_checks(&self) {
        let ran = |table: &Table| self.outcomes().any(|(_, with, _)| with == *table);
        let versions: Vec<Table> = Table::all().filter(ran).collect();
        let heads = versions.iter().map(Table::to_string);
        let mut rows = vec![std::iter::once("check".to_owned()).chain(heads).collect::<Vec<_>>()];
        for (name, outcomes) in &self.checks {
            let cell = |version: &Table| {
                let found = outcomes.iter().find(|(known, _)| known == version);
                match found {
                    None => "-",
                    Some((_, Outcome::Passed)) => "ok",
                    Some((_, Outcome::Failed(_))) => "FAIL",
                }
            };
            let cells = std::iter::once(*name).chain(versions.iter().map(cell));
            rows.push(cells.map(str::to_owned).collect());
        }
        println!("{}", aligned(&rows, 1).join("\n"));
        let (mut passed, mut all) = (0, 0);
        for (name, version, outcome) in self.outcomes() {
            all += 1;
            match outcome {
                Outcome::Passed => passed += 1,
                Outcome::Failed(seen) => println!("\n{version}, {name}: {seen}"),
            }
        }
        println!("\n{passed} of {all} passed");
    }

    /// Writes JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let check = |(name, table, outcome): (&str, Table, &Outcome)| -> Value {
            let seen = match outcome {
                Outcome::Passed => Value::Null,
                Outcome::Failed(seen) => json!(seen),
            };
            json!({
                "check": name,
                "table": table.symbol(),
                "version": table.version(),
                "passed": seen.is_null(),
                "seen": seen
            })
        };
        let checks: Vec<Value> = self.outcomes().map(check).collect();
        let report = json!({ "checks": checks, "speed": self.speed });
        write_json(file, &report)
    }
}

/// Writes JSON.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_json(file: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
}
