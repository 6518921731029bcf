//! Tables in Markdown: a row for each contestant, a column for each case.

use std::collections::BTreeMap;

use braid_lab::table::markdown;

use super::case::Family;
use super::contestants;
use super::heading;
use super::trial::{MeasuredCase, Trial};
use crate::interleave::report::{Spread, ratio, spread};
use crate::peer::metrics::{
    BUSY_CORES, CPU, GOODPUT, MEMORY, MESSAGE_RATE, ONE_WAY_MEAN, ONE_WAY_P50, ONE_WAY_P99,
    ONE_WAY_P999,
};

/// Formats the tables of one family at one MTU.
pub(super) fn family(family: Family, mtu: u32, measured: &[MeasuredCase]) -> String {
    let mut parts = vec![format!("MTU {mtu}, {}.", family.title())];
    for (metric, title) in metrics(family) {
        let cell =
            |of: &MeasuredCase, who: &str| spread(&of.run, metric, who).map(|s| s.to_string());
        parts.extend(table(title, measured, cell));
    }
    for reference in references(family) {
        let title = format!("{reference}'s {} by theirs", what(family));
        let cell = |of: &MeasuredCase, who: &str| {
            let ratio = ratio(&of.run, family.metric(), reference, who);
            ratio.filter(|_| who != reference).map(|ratio| ratio.to_string())
        };
        parts.extend(table(&title, measured, cell));
    }
    parts.extend(left_out(measured));
    parts.join("\n\n")
}

/// Describes the machine and the set-up of the measurement.
pub(super) fn about(
    trial: &Trial,
    measured: &[MeasuredCase],
    versions: &BTreeMap<&'static str, String>,
) -> String {
    let Trial { rounds, seconds } = trial;
    let machine = measured.first().map(|of| of.run.machine.to_string()).unwrap_or_default();
    let states = measured.iter().flat_map(|of| &of.run.rounds);
    let hops: Vec<f64> = states
        .flat_map(|round| [round.before, round.after])
        .filter_map(|state| state.cache_line_hop_ns)
        .collect();
    let hop = |pick: fn(f64, f64) -> f64, from: f64| hops.iter().copied().fold(from, pick);
    let cores = match hops.is_empty() {
        true => String::new(),
        false => {
            let (least, most) = (hop(f64::min, f64::INFINITY), hop(f64::max, 0.0));
            format!(" A cache line took {least:.0} to {most:.0} ns from one core to the other.")
        }
    };
    let packages: Vec<String> =
        versions.iter().map(|(package, version)| format!("{package} {version}")).collect();
    format!(
        "{machine}; {rounds} rounds, {seconds} s of each contestant in each.{cores} Braid {}; {}.",
        env!("CARGO_PKG_VERSION"),
        packages.join(", ")
    )
}

/// Returns the metrics of a family's tables. The first one is used for ratios.
fn metrics(family: Family) -> &'static [(&'static str, &'static str)] {
    match family {
        Family::OneWay | Family::Paths | Family::BothWays | Family::QueuePairs | Family::Keyed => {
            &[
                (GOODPUT, "GB/s, median (least to most)"),
                (CPU, "CPU seconds per GB, both ends"),
                (MEMORY, "Resident memory at most, both ends, MiB"),
            ]
        }
        Family::MessageRate => {
            &[(MESSAGE_RATE, "Million messages a second, median (least to most)")]
        }
        Family::LatencySpinning | Family::LatencyBlocking | Family::KeyedLatency => &[
            (ONE_WAY_P50, "Median in microseconds (least to most of the rounds' medians)"),
            (ONE_WAY_MEAN, "Mean in microseconds, of those that tell no median"),
            (ONE_WAY_P99, "99th percentile in microseconds"),
            (ONE_WAY_P999, "99.9th percentile in microseconds"),
            (BUSY_CORES, "Cores busy, both ends"),
        ],
    }
}

fn what(family: Family) -> &'static str {
    match family {
        Family::MessageRate => "rate",
        latency if latency.is_latency() => "median",
        _ => "goodput",
    }
}

fn references(family: Family) -> Vec<&'static str> {
    let unchecked = matches!(family, Family::OneWay | Family::BothWays);
    let unchecked = unchecked.then_some(contestants::UNCHECKED);
    [contestants::reference(family)].into_iter().chain(unchecked).collect()
}

/// Formats a table with its title, without empty rows. `None`: all rows are empty.
fn table(
    title: &str,
    measured: &[MeasuredCase],
    cell: impl Fn(&MeasuredCase, &str) -> Option<String>,
) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for name in measured.iter().flat_map(|of| &of.run.names) {
        if !names.contains(&name.as_str()) && measured.iter().any(|of| cell(of, name).is_some()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let row = |name: &str, cell: &dyn Fn(&MeasuredCase) -> String| {
        std::iter::once(name.to_owned()).chain(measured.iter().map(cell)).collect::<Vec<_>>()
    };
    let mut rows = vec![row("", &|of| heading(&of.case))];
    rows.extend(
        names.iter().map(|name| row(name, &|of| cell(of, name).unwrap_or_else(|| "-".to_owned()))),
    );
    Some(format!("{title}:\n\n{}", markdown(&rows, 1).join("\n")))
}

fn left_out(measured: &[MeasuredCase]) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    for of in measured {
        for left_out in &of.left_out {
            let line =
                format!("- {} at {}: {}", left_out.contestant, heading(&of.case), left_out.why);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    (!lines.is_empty())
        .then(|| format!("Not measured, or not in every round:\n\n{}", lines.join("\n")))
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = |value: f64| match value {
            value if value >= 100.0 => format!("{value:.0}"),
            value if value >= 10.0 => format!("{value:.1}"),
            value if value >= 0.1 => format!("{value:.2}"),
            value => format!("{value:.4}"),
        };
        let [median, least, most] = [self.median, self.least, self.most].map(digits);
        write!(f, "{median} ({least}–{most})")
    }
}
