//! One table per scenario.

use std::io::{self, Write};

use braid_lab::table::aligned;

use super::lab::SpineLab;
use super::record::SprayRecord;
use super::scenario::SprayScenario;
use super::trial::MESSAGE_BYTES;

/// A column: its heading, and the function that returns its text. `None`: not applicable to the
/// run.
type Column = (&'static str, fn(&SprayRecord) -> Option<String>);

#[rustfmt::skip]
const COLUMNS: &[Column] = &[
    ("policy", |r| Some(r.policy.clone())),
    ("recovery", |r| Some(r.recovery.unwrap_or("-").to_owned())),
    ("discovery", |r| (r.routing == "ecmp").then(|| on_or_off(r.discovery).to_owned())),
    ("flows", |r| Some(r.queue_pairs.to_string())),
    ("paths", |r| r.paths.map(|paths| paths.to_string())),
    ("window [KiB]", |r| r.window_bytes.map(|bytes| (bytes >> 10).to_string())),
    ("Mbit/s", |r| Some(format!("{:.0}", r.goodput_gbps * 1e3))),
    ("of capacity", |r| Some(format!("{:.3}", r.goodput_over_capacity))),
    ("link max/mean", |r| Some(format!("{:.3}", r.link_max_over_mean))),
    ("sent again", |r| r.retransmit_ratio.map(percent)),
    ("needlessly", |r| r.spurious_ratio.map(percent)),
    ("time-outs", |r| r.timeouts.map(|count| count.to_string())),
    ("OOO p50", |r| r.ooo_p50.map(|degree| degree.to_string())),
    ("OOO p99", |r| r.ooo_p99.map(|degree| degree.to_string())),
    ("RTO [ms]", |r| r.rto_ms.map(|ms| format!("{ms:.1}"))),
    ("recovered [ms]", |r| r.recovery_ms.map(|ms| ms_or_never(if_recovered(r, ms)))),
    ("back in use [ms]", |r| r.recovery_ms.map(|_| ms_or_never(r.return_ms))),
    ("last/first", |r| r.finish_max_over_min.map(|ratio| format!("{ratio:.3}"))),
    ("checked", |r| r.verified_messages.map(|count| count.to_string())),
];

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn if_recovered(of: &SprayRecord, ms: f64) -> Option<f64> {
    (of.recovered == Some(true)).then_some(ms)
}

fn ms_or_never(ms: Option<f64>) -> String {
    ms.map_or("never".to_owned(), |ms| format!("{ms:.0}"))
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

pub(super) fn print(
    out: &mut impl Write,
    scenario: SprayScenario,
    lab: &SpineLab,
    records: &[SprayRecord],
) -> io::Result<()> {
    let plan = lab.plan();
    writeln!(out, "{}: {}", scenario.name(), scenario.title())?;
    writeln!(
        out,
        "  {} spines at {}, MTU {};{} messages of {} KiB; capacity {:.0} Mbit/s of payload",
        plan.spines,
        plan.rate,
        plan.mtu,
        scenario.paths().map_or(String::new(), |paths| format!(" {paths} paths,")),
        MESSAGE_BYTES >> 10,
        records.first().map_or(0.0, |record| record.capacity_gbps * 1e3),
    )?;
    for line in lines(records) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// Formats the lines: text to the left, figures to the right. Columns that apply to no run are left
/// out.
fn lines(records: &[SprayRecord]) -> Vec<String> {
    let applies = |column: &&Column| records.iter().any(|record| column.1(record).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(applies).collect();
    let heading = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let row = |record: &SprayRecord| {
        let cells = columns.iter().map(|(_, cell)| cell(record).unwrap_or_else(|| "-".to_owned()));
        cells.collect::<Vec<String>>()
    };
    let rows: Vec<_> = [heading].into_iter().chain(records.iter().map(row)).collect();
    aligned(&rows, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_those_that_say_nothing_left_out() {
        let tcp =
            SprayRecord { policy: "tcp".to_owned(), goodput_gbps: 0.186, ..SprayRecord::default() };
        let pro = SprayRecord {
            policy: "pro".to_owned(),
            recovery: Some("fifo-path"),
            spurious_ratio: Some(0.005),
            ..SprayRecord::default()
        };
        let lines = lines(&[tcp, pro]);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("policy  recovery   flows"), "{}", lines[0]);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{lines:#?}");
        assert!(lines[2].contains("0.50 %") && lines[1].contains("186"), "{lines:#?}");
        assert!(!lines[0].contains("recovered") && !lines[0].contains("last/first"));
    }
}
