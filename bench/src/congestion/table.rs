//! One table per scenario.

use std::io::{self, Write};

use braid_lab::table::{self, aligned};

use super::metric::Metric;
use super::record::ControllerRecord;
use super::scenario::CongestionScenario;

/// Number of text columns: the case and the controller.
const WORDS: usize = 2;

pub(super) fn print(
    out: &mut impl Write,
    scenario: CongestionScenario,
    records: &[ControllerRecord],
) -> io::Result<()> {
    writeln!(out, "{}: {}", scenario.name(), scenario.title())?;
    for line in aligned(&rows(records), WORDS) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// The same for a page in Markdown.
pub(super) fn markdown(scenario: CongestionScenario, records: &[ControllerRecord]) -> String {
    let lines = table::markdown(&rows(records), WORDS).join("\n");
    format!("## {}: {}\n\n{lines}\n", scenario.name(), scenario.title())
}

/// Medians by case, without the metrics that no run has.
fn rows(records: &[ControllerRecord]) -> Vec<Vec<String>> {
    let mut metrics: Vec<Metric> =
        records.iter().flat_map(|record| record.medians.keys().copied()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let mut rows = vec![vec!["case".to_owned(), "controller".to_owned()]];
    rows[0].extend(metrics.iter().map(|metric| metric.heading().to_owned()));
    rows.extend(records.iter().map(|record| {
        let figure = |metric: &Metric| match record.medians.get(metric) {
            Some(figure) => format!("{figure:.*}", metric.decimals()),
            None => "-".to_owned(),
        };
        let words = [record.case.clone(), record.congestion_control.clone()];
        words.into_iter().chain(metrics.iter().map(figure)).collect()
    }));
    rows
}
