//! Reports as a table: a line for each scenario, then what does not fit into it.

use std::fmt::Write as _;

use super::{Measured, Report};

/// A column: its heading, and its text for a scenario's runs.
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

/// All that people want to see of these reports. Numbers are means over a scenario's runs.
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

/// Columns as wide as their widest text; the first to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// What a scenario is, then what its runs have in common.
fn details(report: &Report) -> String {
    let mut text = String::new();
    let lines = set_up_lines(report).into_iter().chain(run_lines(report));
    for (what, said) in lines {
        writeln!(text, "  {what:<16} {said}").expect("a string takes all that is written to it");
    }
    text
}

/// A line below the table: what it is about, and what it says.
type Line = (String, String);

fn line(what: &str, said: String) -> Line {
    (what.to_owned(), said)
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
        line("sent", format!("{} messages, {} bytes", set_up.messages, set_up.bytes)),
    ]
}

fn run_lines(report: &Report) -> Vec<Line> {
    let Some(first) = report.runs.first() else { return Vec::new() };
    let mut lines = vec![line("queues[pkt]", queues(report, first)), message_times(report)];
    let drops = first.drops;
    if drops.total > 0 {
        let said = format!(
            "no room {}, link down {}, no route {} (seed {})",
            drops.no_room, drops.link_down, drops.no_route, first.seed
        );
        lines.push(line("drops", said));
    }
    lines.push(cost(report));
    lines
}

/// The longest of each layer, in any run.
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
