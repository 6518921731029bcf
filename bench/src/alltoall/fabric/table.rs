//! The table: a group of rows for each matrix, with a row for each policy and one for MPI.

use std::io::{self, Write};
use std::path::Path;

use braid_lab::table::{Columns, markdown};
use braid_lab::traffic::Workload;
use serde::Serialize;

use super::super::report::AllToAllReport;
use crate::failure::Failure;

/// The result of one run.
#[derive(Serialize)]
pub(super) struct FabricRow {
    workload: String,
    scheme: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<AllToAllReport>,
    /// The reason for a missing report.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Completion time of MPI over that of this run.
    mpi_over_cct: Option<f64>,
}

impl FabricRow {
    pub(super) fn new(
        workload: Workload,
        scheme: &str,
        outcome: Result<AllToAllReport, Failure>,
        mpi_seconds: Option<f64>,
    ) -> FabricRow {
        let (report, failure) = match outcome {
            Ok(report) => (Some(report), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        let mpi_over_cct = report.as_ref().zip(mpi_seconds).map(|(report, mpi)| mpi / report.cct);
        let (workload, scheme) = (workload.to_string(), scheme.to_owned());
        FabricRow { workload, scheme, report, failure, mpi_over_cct }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.workload.clone(), self.scheme.clone()];
        match &self.report {
            Some(report) => cells.extend(report.cells()),
            None => cells.extend(self.failure.clone()),
        }
        cells.extend(self.mpi_over_cct.map(|times| format!("{times:.2}")));
        cells
    }
}

/// The widths, so that rows can be printed one by one.
const COLUMNS: Columns<'_> = Columns { words: 2, widths: &[17, 10, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8] };
const LAST: &str = "MPI/CCT";

fn headings() -> Vec<String> {
    let all = ["matrix", "policy"].into_iter().chain(AllToAllReport::COLUMNS).chain([LAST]);
    all.map(str::to_owned).collect()
}

pub(super) fn head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.row(&headings()))
}

pub(super) fn row(out: &mut impl Write, row: &FabricRow) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.row(&row.cells()))
}

/// `table.md`, as the documentation has it: completion times over the bound by matrix and policy,
/// then everything.
pub(super) fn write(folder: &Path, rows: &[FabricRow]) -> Result<(), Failure> {
    let all: Vec<_> = [headings()].into_iter().chain(rows.iter().map(FabricRow::cells)).collect();
    let text = format!("{}\n\n{}\n", by_policy(rows), markdown(&all, 2).join("\n"));
    let file = folder.join("table.md");
    let what = || format!("cannot write {}", file.display());
    std::fs::write(&file, text).map_err(|why| Failure::Io { what: what(), why })
}

/// Formats a row for each matrix and a column for each policy.
fn by_policy(rows: &[FabricRow]) -> String {
    let matrices: Vec<&[FabricRow]> = rows.chunk_by(|a, b| a.workload == b.workload).collect();
    let schemes = matrices.first().into_iter().flat_map(|rows| rows.iter());
    let heading = std::iter::once("CCT/bound".to_owned());
    let heading: Vec<String> = heading.chain(schemes.map(|row| row.scheme.clone())).collect();
    let line = |rows: &&[FabricRow]| {
        let over = |row: &FabricRow| {
            row.report.as_ref().map_or("-".to_owned(), AllToAllReport::over_bound)
        };
        std::iter::once(rows[0].workload.clone()).chain(rows.iter().map(over)).collect()
    };
    let all: Vec<_> = [heading].into_iter().chain(matrices.iter().map(line)).collect();
    markdown(&all, 1).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_has_its_reason_in_its_row() {
        let failure = Failure::Trial("rank 2 did not end in 30s".to_owned());
        let row = FabricRow::new(Workload::Uniform, "lpt", Err(failure), Some(0.25));
        assert_eq!(row.cells(), ["uniform", "lpt", "rank 2 did not end in 30s"]);
        let table = by_policy(&[row]);
        assert_eq!(table, "| CCT/bound | lpt |\n| --- | ---: |\n| uniform | - |");
    }
}
