//! Reports as a table: a row for each scenario, then its details.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::measured::ratio;
use super::timeouts::DOMINANT;
use super::{Measured, Report, SizeTimes};

/// A column: its heading, and the function that returns its text.
type Column = (&'static str, fn(&Report) -> String);

const COLUMNS: &[Column] = &[
    ("scenario", |report| report.set_up.scenario.clone()),
    ("runs", |report| report.runs.len().to_string()),
    ("cct[us]", |report| format!("{:.3}", mean(report, |run| run.cct_us))),
    ("bound[us]", |report| format!("{:.3}", mean(report, |run| run.lower_bound_us))),
    ("slowdown", |report| format!("{:.4}", mean(report, |run| run.slowdown))),
    ("min..max", |report| {
        let [low, high] = range(report, |run| run.slowdown);
        format!("{low:.3}..{high:.3}")
    }),
    ("max queue[pkt]", |report| count(report, |run| run.max_queue_packets.into())),
    ("packets", |report| count(report, |run| run.data_packets)),
    ("resent", |report| count(report, |run| run.retransmissions)),
    ("spurious", |report| format!("{:.2}%", 100.0 * mean(report, |run| run.spurious_share))),
    ("trims", |report| count(report, |run| run.trims)),
    ("drops", |report| count(report, |run| run.drops.total)),
    ("marks", |report| count(report, |run| run.ecn_marks)),
    ("pauses", |report| count(report, |run| run.pauses)),
    ("ooo p99", |report| count(report, |run| run.ooo_p99)),
    ("kpkt/cpu s", |report| format!("{:.0}", mean(report, |run| run.packets_per_cpu_s) / 1e3)),
];

/// Formats reports as a table. Numbers are means over the runs of a scenario.
pub fn table(reports: &[Report]) -> String {
    let mut rows = vec![COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()).collect()];
    rows.extend(
        reports
            .iter()
            .map(|report| COLUMNS.iter().map(|(_, text)| text(report)).collect::<Vec<String>>()),
    );
    let mut text = aligned(&rows);
    for report in reports {
        text += &details(report);
    }
    text
}

/// The width of a terminal in columns. No table is wider.
const WIDTH: usize = 100;
const GAP: &str = "  ";

/// Formats rows in columns as wide as their widest text: the first is aligned left, the others
/// right. Columns that do not fit follow in a further block, which repeats the first one.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for block in blocks(&widths) {
        if !text.is_empty() {
            text.push('\n');
        }
        for row in rows {
            let cells = block.iter().map(|&column| match (&row[column], widths[column]) {
                (cell, width) if column == 0 => format!("{cell:<width$}"),
                (cell, width) => format!("{cell:>width$}"),
            });
            text += cells.collect::<Vec<_>>().join(GAP).trim_end();
            text.push('\n');
        }
    }
    text
}

/// Splits the columns into blocks that fit side by side.
fn blocks(widths: &[usize]) -> Vec<Vec<usize>> {
    let mut blocks = vec![vec![0]];
    let mut taken = widths.first().copied().unwrap_or(0);
    for (column, width) in widths.iter().enumerate().skip(1) {
        taken += GAP.len() + width;
        if let (true, [_, _, ..]) = (taken > WIDTH, &blocks[blocks.len() - 1][..]) {
            blocks.push(vec![0]);
            taken = widths[0] + GAP.len() + width;
        }
        blocks.last_mut().expect("there is one").push(column);
    }
    blocks
}

/// Wraps text at the terminal's width. All lines but the first are indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && indent + last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines.join(&format!("\n{:indent$}", ""))
}

/// Formats the set-up of a scenario and the results that its runs share.
fn details(report: &Report) -> String {
    let mut text = String::new();
    let lines = set_up_lines(report).into_iter().chain(run_lines(report));
    for (label, value) in lines {
        let value = wrapped(&value, 19.max(label.chars().count() + 3));
        let line = format!("  {label:<16} {value}");
        writeln!(text, "{}", line.trim_end()).expect("a string takes all that is written to it");
    }
    text
}

/// A line below the table: its label and its text.
type Line = (String, String);

fn line(what: &str, text: String) -> Line {
    (what.to_owned(), text)
}

fn set_up_lines(report: &Report) -> Vec<Line> {
    let set_up = &report.set_up;
    vec![
        line("", String::new()),
        (format!("{}:", set_up.scenario), set_up.about.clone()),
        line(
            "fabric",
            format!(
                "{} hosts, {} interfaces, {} switches, {} cables; switch {}",
                set_up.hosts, set_up.interfaces, set_up.switches, set_up.cables, set_up.switch
            ),
        ),
        line(
            "hosts",
            format!(
                "lb {}, paths {}, recovery {}, cc {}",
                set_up.lb, set_up.paths, set_up.recovery, set_up.cc
            ),
        ),
        line("sent", sent(report)),
    ]
}

fn sent(report: &Report) -> String {
    let traffic = &report.set_up.traffic;
    let sent = format!("{} messages, {} bytes", traffic.messages, traffic.bytes);
    match traffic.steps {
        0 => sent,
        steps => format!("{sent}; {steps} steps between them"),
    }
}

fn run_lines(report: &Report) -> Vec<Line> {
    let Some(first) = report.runs.first() else { return Vec::new() };
    let mut lines = vec![line("queues[pkt]", queues(report, first)), message_times(report)];
    lines.extend(times_by_size(report));
    lines.extend(group_times(report));
    let drops = first.drops;
    if drops.total > 0 {
        let text = format!(
            "no room {}, link down {}, no route {}, lossy link {} (seed {})",
            drops.no_room, drops.link_down, drops.no_route, drops.lossy_link, first.seed
        );
        lines.push(line("drops", text));
    }
    lines.extend(timeouts(report));
    lines.push(cost(report));
    lines
}

/// Says that the result is one about time-outs, if it is.
fn timeouts(report: &Report) -> Option<Line> {
    let share = mean(report, |run| run.timeout_share);
    (share > DOMINANT).then(|| {
        let text = format!(
            "{:.0} % of the completion time is waiting for {} time-outs: the result depends on \
             min_rto and the loss recovery",
            100.0 * share,
            count(report, |run| run.timeouts)
        );
        line("time-outs", text)
    })
}

/// Formats the longest queue of each layer over all runs.
fn queues(report: &Report, first: &Measured) -> String {
    let layers = first.max_queue_packets_by_layer.keys().map(|layer| {
        let most = |run: &Measured| run.max_queue_packets_by_layer.get(layer).copied();
        let most = report.runs.iter().filter_map(most).max().unwrap_or(0);
        format!("{layer} {most}")
    });
    layers.collect::<Vec<_>>().join(", ")
}

fn message_times(report: &Report) -> Line {
    let times = |of: fn(&Measured) -> f64| format!("{:.3}", mean(report, of));
    line(
        "messages[us]",
        format!(
            "mean {}, p50 {}, p99 {}, max {}",
            times(|run| run.message_us.mean),
            times(|run| run.message_us.p50),
            times(|run| run.message_us.p99),
            times(|run| run.message_us.max)
        ),
    )
}

/// Formats the ends of the groups of a workload with steps, such as the ranks of a trace, if there
/// are several. Figures are means of the runs.
fn group_times(report: &Report) -> Option<Line> {
    let groups = report.runs.first()?.groups.len();
    if report.set_up.traffic.steps == 0 || groups < 2 {
        return None;
    }
    let text = format!(
        "{groups}, done after {:.3} to {:.3}, mean {:.3}",
        mean(report, |run| ends(run).fold(f64::INFINITY, f64::min)),
        mean(report, |run| ends(run).fold(0.0, f64::max)),
        mean(report, |run| ratio(ends(run).sum(), run.groups.len() as f64))
    );
    Some(line("groups[us]", text))
}

fn ends(run: &Measured) -> impl Iterator<Item = f64> {
    run.groups.iter().map(|group| group.completed_us)
}

/// Formats the times of each class of sizes, if there are several. Figures are means of the runs
/// that have messages of the class.
fn times_by_size(report: &Report) -> Vec<Line> {
    let classes: BTreeSet<u64> =
        report.runs.iter().flat_map(|run| run.message_us_by_size.keys().copied()).collect();
    if classes.len() < 2 {
        return Vec::new();
    }
    let times = |class: u64| {
        let runs: Vec<_> =
            report.runs.iter().filter_map(|run| run.message_us_by_size.get(&class)).collect();
        let mean = |of: fn(&SizeTimes) -> f64| {
            runs.iter().map(|times| of(times)).sum::<f64>() / runs.len().max(1) as f64
        };
        let text = format!(
            "{:.0} messages, p50 {:.3}, p99 {:.3} us; slowdown mean {:.2}, p50 {:.2}, p99 {:.2}",
            mean(|times| times.messages as f64),
            mean(|times| times.us.p50),
            mean(|times| times.us.p99),
            mean(|times| times.slowdown.mean),
            mean(|times| times.slowdown.p50),
            mean(|times| times.slowdown.p99)
        );
        line(&format!("up to {}", size_text(class)), text)
    };
    classes.into_iter().map(times).collect()
}

/// Formats a power of ten of bytes, from 1000 on.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn cost(report: &Report) -> Line {
    line(
        "cost",
        format!(
            "{} events, {:.2} CPU s, {:.0} MB at most",
            count(report, |run| run.events),
            report.runs.iter().map(|run| run.cpu_s).sum::<f64>(),
            report.runs.iter().filter_map(|run| run.peak_rss_mb).fold(0.0, f64::max)
        ),
    )
}

fn mean(report: &Report, of: fn(&Measured) -> f64) -> f64 {
    report.runs.iter().map(of).sum::<f64>() / report.runs.len().max(1) as f64
}

fn range(report: &Report, of: fn(&Measured) -> f64) -> [f64; 2] {
    let values = report.runs.iter().map(of);
    [values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max)]
}

fn count(report: &Report, of: fn(&Measured) -> u64) -> String {
    let sum: u64 = report.runs.iter().map(of).sum();
    format!("{:.0}", sum as f64 / report.runs.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_follow_in_a_further_block() {
        let row = |cell: &str| vec![cell.to_owned(); 12];
        let text = aligned(&[row("0123456789"), row("1")]);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        let words = text.split_whitespace().filter(|word| *word == "0123456789").count();
        assert_eq!(words, 13, "all twelve, and the first once more:\n{text}");
        assert_eq!(aligned(&[vec!["a".into(), "b".into()]]), "a  b\n");
    }

    #[test]
    fn long_lines_are_wrapped_where_they_began() {
        let text = wrapped(&"word ".repeat(40), 19);
        assert!(text.lines().all(|line| line.len() <= WIDTH && !line.ends_with(' ')), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with(&" ".repeat(19))), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }
}
