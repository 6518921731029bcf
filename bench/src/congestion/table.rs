//! One table per scenario.

use std::io::{self, Write};

use super::metric::Metric;
use super::record::ControllerRecord;
use super::scenario::CongestionScenario;
use crate::columns;

/// Number of text columns: the case and the controller.
const WORDS: usize = 2;

pub(super) fn print(
    out: &mut impl Write,
    scenario: CongestionScenario,
    records: &[ControllerRecord],
) -> io::Result<()> {
    writeln!(out, "{}: {}", scenario.name(), scenario.title())?;
    for line in columns::aligned(&table(records), WORDS) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// Formats the table for a page in Markdown.
pub(super) fn markdown(scenario: CongestionScenario, records: &[ControllerRecord]) -> String {
    let lines = columns::markdown(&table(records), WORDS).join("\n");
    format!("## {}: {}\n\n{lines}\n", scenario.name(), scenario.title())
}

/// Returns the medians, without metrics that no run has.
fn table(records: &[ControllerRecord]) -> Vec<Vec<String>> {
    let words = |heading: &str, cell: fn(&ControllerRecord) -> &str| {
        let cells = records.iter().map(|record| cell(record).to_owned());
        [heading.to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let mut metrics: Vec<Metric> =
        records.iter().flat_map(|record| record.medians.keys().copied()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let figures = |metric: &Metric| {
        let cell = |record: &ControllerRecord| match record.medians.get(metric) {
            Some(figure) => format!("{figure:.*}", metric.decimals()),
            None => "-".to_owned(),
        };
        [metric.heading().to_owned()].into_iter().chain(records.iter().map(cell)).collect()
    };
    let mut columns = vec![
        words("case", |record| &record.case),
        words("controller", |record| &record.congestion_control),
    ];
    columns.extend(metrics.iter().map(figures));
    columns
}
