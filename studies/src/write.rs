//! Output of a study as text, tables and files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use braid_lab::charts::{DrawError, Figure, Kind, Point, Spread, draw};
use braid_sim::report::{aligned, json_text, wrapped};

use super::shipped::Table;
use super::study::{Origin, Study};

/// The reason why results could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be written.
    #[error("cannot write {}: {why}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// A plot cannot be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
}

/// The heading of the table that says how a page was made.
pub(crate) const ORIGIN_HEAD: &str = "| commit | seeds | command |";
/// The heading of the table of claims.
pub(crate) const CLAIMS_HEAD: &str = "| | paper | measured | verdict |";

/// The line of a page's notes before which the results come. The rest follows the claims.
const RESULTS: &str = "<!-- results -->\n";

/// The introduction of the tables of the product.
const AS_SHIPPED: &str = "The paper's experiments on [the hosts that \
    ship](../simulator.md#the-hosts-that-ship): with all\ndefaults, and with the paper's path \
    policy, congestion control and loss recovery on them.\n";

/// The text in place of a table of a curve's points.
const TOO_MANY: &str = "over time; all points are in the JSON";

/// Formats the tables, those of the product first, then the claims with their verdicts.
pub fn text(study: &Study) -> String {
    let mut text = format!("{}\n\n{}", study.title, tables_text(&study.shipped));
    for figure in &study.figures {
        let (id, title, unit) = (&figure.id, &figure.title, &figure.y.label);
        let shown = match figure.kind {
            Kind::Curves { .. } => format!("  {TOO_MANY}\n"),
            Kind::Lines | Kind::Bars => aligned(&table(figure)),
        };
        text += &format!("{id}  {title}  [{unit}]\n{shown}\n");
    }
    for claim in &study.claims {
        let why = claim.verdict.reason();
        text += &format!("{:<8} {}\n", claim.figure, claim.verdict.name());
        text += &format!("         paper     {}\n", claim.says);
        text += &format!("         measured  {}\n", claim.measured);
        text += &why.map_or(String::new(), |why| format!("         because   {why}\n"));
    }
    text + &format!("\n{}\n", study.counted())
}

/// Formats tables of the product.
pub fn tables_text(tables: &[Table]) -> String {
    let one = |table: &Table| format!("{}\n{}\n", wrapped(&table.title, 0), aligned(&table.rows));
    tables.iter().map(one).collect()
}

/// Writes `<paper>.json`, `<paper>.md` and an SVG per figure. The folder is created if needed.
///
/// # Errors
/// A file cannot be written.
pub fn write(study: &Study, dir: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(dir).map_err(|why| WriteError::File { path: dir.to_owned(), why })?;
    write_file(&dir.join(format!("{}.json", study.paper)), &json_text(study))?;
    write_file(&dir.join(format!("{}.md", study.paper)), &markdown(study))?;
    for figure in &study.figures {
        let path = dir.join(svg_name(study, figure));
        draw(figure, &path)?;
    }
    Ok(())
}

/// Writes the tables of the product as `<paper>-shipped.md`. The folder is created if needed.
///
/// # Errors
/// The file cannot be written.
pub fn write_shipped(paper: &str, tables: &[Table], dir: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(dir).map_err(|why| WriteError::File { path: dir.to_owned(), why })?;
    write_file(&dir.join(format!("{paper}-shipped.md")), &tables_markdown(tables))
}

fn write_file(path: &Path, text: &str) -> Result<(), WriteError> {
    fs::write(path, text).map_err(|why| WriteError::File { path: path.to_owned(), why })
}

fn svg_name(study: &Study, figure: &Figure) -> String {
    format!("{}-{}.svg", study.paper, figure.id)
}

/// Returns rows of cells with the heading first: a row per position on the x axis, a column per
/// series.
fn table(figure: &Figure) -> Vec<Vec<String>> {
    let mut places: Vec<&Point> = Vec::new();
    for point in figure.series.iter().flat_map(|series| &series.points) {
        if !places.iter().any(|place| place.x == point.x) {
            places.push(point);
        }
    }
    places.sort_by(|a, b| a.x.total_cmp(&b.x));
    let names = figure.series.iter().map(|series| series.name.clone());
    let corner = match figure.kind {
        Kind::Lines | Kind::Curves { .. } => figure.x.label.clone(),
        Kind::Bars => String::new(),
    };
    let mut rows = vec![std::iter::once(corner).chain(names).collect::<Vec<_>>()];
    for place in places {
        let name = place.label.clone().unwrap_or_else(|| number(place.x));
        let cells = figure.series.iter().map(|series| {
            let point = series.points.iter().find(|point| point.x == place.x);
            point.map_or_else(|| "-".to_owned(), cell)
        });
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    rows
}

fn cell(point: &Point) -> String {
    spread(point.y)
}

/// Formats the mean, and the range if there are several runs.
pub(crate) fn spread(spread: Spread) -> String {
    if spread.runs == 1 {
        return number(spread.mean);
    }
    format!("{} ({}..{})", number(spread.mean), number(spread.min), number(spread.max))
}

/// Formats about three significant digits without an exponent.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats a text for a cell of a table: in one line, and without bars that would end the cell.
pub(crate) fn cell_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Formats the origin of a study as a table.
fn origin_markdown(origin: &Origin) -> String {
    let commit = origin.commit.as_deref().map_or("not named".to_owned(), |of| format!("`{of}`"));
    let [first, last] = origin.seeds;
    let command = &origin.command;
    format!(
        "This program wrote the page:\n\n{ORIGIN_HEAD}\n|---|---|---|\n\
         | {commit} | {first} to {last} | `{command} --out DIR` |\n"
    )
}

/// Formats the page of a study.
pub(crate) fn markdown(study: &Study) -> String {
    let (head, discussion) = study.notes.split_once(RESULTS).unwrap_or((study.notes, ""));
    let mut text = format!("# {}\n\n{head}", study.title);
    text += &origin_markdown(&study.origin);
    let _ = write!(text, "\n{}.\n\n## As shipped\n\n{AS_SHIPPED}", study.counted());
    text += &tables_markdown(&study.shipped);
    text += &format!("\n## Claims\n\n{CLAIMS_HEAD}\n|---|---|---|---|\n");
    for claim in &study.claims {
        let why = claim.verdict.reason().map_or(String::new(), |why| format!(": {why}"));
        let verdict = format!("{}{why}", claim.verdict.name());
        let cells = [&claim.figure, &claim.says, &claim.measured, &verdict];
        let _ = writeln!(text, "| {} |", cells.map(|cell| cell_text(cell)).join(" | "));
    }
    text += discussion;
    text += "\n## Choices\n\nWhere the paper is silent:\n\n";
    for choice in &study.choices {
        let _ = writeln!(text, "- {choice}");
    }
    text += "\n## Figures\n\nMean (least..most) over the runs.\n";
    for figure in &study.figures {
        let (id, title, unit) = (&figure.id, &figure.title, &figure.y.label);
        let _ = write!(text, "\n### {id}: {title}\n\n");
        let _ = write!(text, "![{title}]({})\n\n{unit}", svg_name(study, figure));
        if matches!(figure.kind, Kind::Curves { .. }) {
            let _ = writeln!(text, ", {TOO_MANY}.");
            continue;
        }
        text += ":\n\n";
        push_rows(&mut text, &table(figure));
    }
    text
}

fn tables_markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let _ = write!(text, "\n{}:\n\n", wrapped(&table.title, 0));
        push_rows(&mut text, &table.rows);
    }
    text
}

/// Appends a table in Markdown.
fn push_rows(text: &mut String, rows: &[Vec<String>]) {
    for (row, index) in rows.iter().zip(0..) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(text, "|---|{}", "---:|".repeat(row.len() - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_lab::charts::{Axis, Series};

    use super::super::batch::Effort;
    use super::super::study::{Claim, Verdict};
    use super::*;

    fn study() -> Study {
        let series = |name: &str, points| Series { name: name.into(), points };
        let lines = Figure {
            id: "fig01".into(),
            title: "Queues".into(),
            x: Axis::log("packets"),
            y: Axis::log("longest queue [packets]"),
            kind: Kind::Lines,
            series: vec![
                series("A", vec![Point::at(64.0, &[1.0, 3.0]), Point::at(256.0, &[4.0])]),
                series("B", vec![Point::at(64.0, &[10.5])]),
            ],
        };
        let bars = Figure {
            id: "fig02".into(),
            title: "Times".into(),
            x: Axis::linear(""),
            y: Axis::linear("CCT increase [%]"),
            kind: Kind::Bars,
            series: vec![series("A", vec![Point::bar(0, "all-to-all", &[0.5, 0.6])])],
        };
        let claim = |verdict| Claim {
            figure: "fig01".into(),
            says: "it grows".into(),
            measured: "it does, by 3 packets".into(),
            verdict,
        };
        Study {
            paper: "paper",
            title: "A paper",
            notes: "The head.\n\n<!-- results -->\n\nThe discussion.\n",
            origin: Origin {
                commit: Some("0123abcd".into()),
                ..Origin::of("paper", &Effort::FULL, &[])
            },
            experiments: Vec::new(),
            shipped: vec![Table {
                title: "The product".into(),
                rows: vec![vec!["".into(), "as shipped".into()], vec!["queue".into(), "7".into()]],
            }],
            figures: vec![lines, bars],
            claims: vec![
                claim(Verdict::Reproduced),
                claim(Verdict::Differs("no".into())),
                claim(Verdict::NotJudged("too small".into())),
            ],
            choices: vec!["one".into()],
        }
    }

    #[test]
    fn a_table_has_a_row_per_place_and_gaps_where_nothing_was_run() {
        let rows = table(&study().figures[0]);
        assert_eq!(rows[0], ["packets", "A", "B"]);
        assert_eq!(rows[1], ["64", "2 (1..3)", "10.5"]);
        assert_eq!(rows[2], ["256", "4", "-"]);
        assert_eq!(table(&study().figures[1])[1], ["all-to-all", "0.55 (0.50..0.60)"]);
        let text = aligned(&rows);
        assert_eq!(text.lines().count(), rows.len(), "{text}");
    }

    #[test]
    fn everything_is_written_down() {
        let study = study();
        let dir = std::env::temp_dir().join(format!("braid-sim-write-{}", std::process::id()));
        write(&study, &dir).unwrap();
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let markdown = read("paper.md");
        assert!(markdown.contains("| queue | 7 |"), "{markdown}");
        assert!(markdown.contains("differs: no"), "{markdown}");
        assert!(markdown.contains("not judged: too small"), "{markdown}");
        assert!(markdown.contains("| 64 | 2 (1..3) | 10.5 |"), "{markdown}");
        let parts = ["The head.", "| 1 to 10 |", "differs: no", "The discussion.", "## Choices"];
        let at = parts.map(|part| markdown.find(part));
        assert!(at.is_sorted() && at[0].is_some(), "{at:?} in {markdown}");
        let origin = "| `0123abcd` | 1 to 10 | `braid-sim reproduce paper --seeds 10 --out DIR` |";
        assert!(markdown.contains(origin), "{markdown}");
        let json: serde_json::Value = serde_json::from_str(&read("paper.json")).unwrap();
        assert_eq!(json["figures"][0]["series"][0]["points"][0]["y"]["max"], 3.0);
        assert_eq!(json["origin"]["commit"], "0123abcd");
        assert_eq!(json["claims"][1]["verdict"]["differs"], "no");
        assert_eq!(json["claims"][2]["verdict"]["not-judged"], "too small");
        for figure in &study.figures {
            let svg = read(&svg_name(&study, figure));
            assert!(svg.starts_with("<svg") && svg.contains(&figure.title), "{}", figure.id);
        }
        write_shipped("paper", &study.shipped, &dir).unwrap();
        assert!(markdown.contains(&read("paper-shipped.md")));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn write_errors_name_the_file() {
        let refused = write(&study(), Path::new("/dev/null/here")).unwrap_err().to_string();
        assert!(refused.contains("cannot write /dev/null/here"), "{refused}");
    }
}
