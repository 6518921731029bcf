//! The figures as SVG files.

use std::path::Path;

use braid_lab::charts::{Axis, Figure, Kind, Point, Series, draw};

use super::record::SprayRecord;
use super::timeline::{WINDOW_MS, acked, means};
use crate::failure::Failure;

/// A bar chart: a group per path policy, a bar per loss recovery method.
struct PolicyBars {
    scenario: &'static str,
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&SprayRecord) -> Option<f64>,
}

const BARS: &[PolicyBars] = &[
    PolicyBars {
        scenario: "clean",
        id: "clean-goodput",
        title: "Goodput of each path policy, by loss recovery",
        unit: "goodput / capacity",
        value: |record| Some(record.goodput_over_capacity),
    },
    PolicyBars {
        scenario: "clean",
        id: "clean-balance",
        title: "Balance of the spines",
        unit: "bytes of the fullest link / mean",
        value: |record| Some(record.link_max_over_mean),
    },
    PolicyBars {
        scenario: "clean",
        id: "clean-order",
        title: "Out-of-order degree, 99th percentile",
        unit: "packets",
        value: |record| record.ooo_p99.map(|degree| degree as f64),
    },
    PolicyBars {
        scenario: "slow",
        id: "slow-goodput",
        title: "One spine at a tenth of its rate",
        unit: "goodput / capacity",
        value: |record| Some(record.goodput_over_capacity),
    },
];

/// Draws every figure for which there are runs.
pub(super) fn all(folder: &Path, records: &[SprayRecord]) -> Result<(), Failure> {
    let of = |scenario: &str| -> Vec<&SprayRecord> {
        records.iter().filter(|record| record.scenario == scenario).collect()
    };
    let bars = BARS.iter().map(|bars| (of(bars.scenario), bars));
    let bars = bars.filter(|(runs, _)| !runs.is_empty()).map(|(runs, bars)| bars.figure(&runs));
    let defaults = of("defaults");
    let defaults = (!defaults.is_empty()).then(|| shipped(&defaults));
    let timelines = [("cut", "cut-timeline"), ("cut-two", "cut-two-timeline")];
    let timelines = timelines.into_iter().map(|(scenario, id)| (of(scenario), id));
    let timelines =
        timelines.filter(|(runs, _)| !runs.is_empty()).map(|(runs, id)| timeline(id, &runs));
    for figure in defaults.into_iter().chain(bars).chain(timelines) {
        draw(&figure, &folder.join(format!("{}.svg", figure.id)))?;
    }
    Ok(())
}

impl PolicyBars {
    fn figure(&self, records: &[&SprayRecord]) -> Figure {
        let mut groups: Vec<String> = Vec::new();
        let mut series: Vec<Series> = Vec::new();
        for record in records {
            let Some(value) = (self.value)(record) else { continue };
            let (name, bar) = (group(record), record.recovery.unwrap_or("tcp"));
            let place = groups.iter().position(|group| *group == name).unwrap_or_else(|| {
                groups.push(name.clone());
                groups.len() - 1
            });
            let at = series.iter().position(|series| series.name == bar).unwrap_or_else(|| {
                series.push(Series { name: bar.to_owned(), points: Vec::new() });
                series.len() - 1
            });
            series[at].points.push(Point::bar(place, name, &[value]));
        }
        Figure {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            x: Axis::linear("path policy"),
            y: Axis::linear(self.unit),
            kind: Kind::Bars,
            series,
        }
    }
}

/// A bar for each sender with the defaults.
fn shipped(records: &[&SprayRecord]) -> Figure {
    let name = |record: &SprayRecord| match (record.policy.as_str(), record.queue_pairs) {
        ("tcp", 1) => "one TCP stream".to_owned(),
        ("tcp", streams) => format!("{streams} TCP streams"),
        ("ecmp", _) => "Braid, one path".to_owned(),
        _ => "Braid".to_owned(),
    };
    let bar = |(place, record): (usize, &&SprayRecord)| {
        Point::bar(place, name(record), &[record.goodput_over_capacity])
    };
    let points = records.iter().enumerate().map(bar).collect();
    Figure {
        id: "defaults".to_owned(),
        title: "One flow over four equal paths, default settings".to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("goodput / capacity"),
        kind: Kind::Bars,
        series: vec![Series { name: "goodput".to_owned(), points }],
    }
}

fn group(record: &SprayRecord) -> String {
    match record.queue_pairs {
        1 => record.policy.clone(),
        several => format!("{} x {several}", record.policy),
    }
}

/// Plots the goodput over the time since the failure, which is shaded.
fn timeline(id: &str, records: &[&SprayRecord]) -> Figure {
    let trouble = |record: &SprayRecord| record.trouble_ms.first_chunk::<2>().copied();
    let series = records.iter().map(|record| Series {
        name: format!("{}, {}", record.policy, record.recovery.unwrap_or("-")),
        points: means(&acked(&record.samples), trouble(record).map_or(0.0, |[begin, _]| begin))
            .iter()
            .map(|(at_ms, gbps)| Point::at(*at_ms, &[gbps * 1e3]))
            .collect(),
    });
    let lasted = records.first().and_then(|record| trouble(record));
    Figure {
        id: id.to_owned(),
        title: "Goodput while spines are black holes (shaded)".to_owned(),
        x: Axis::linear("time since the failure [ms]"),
        y: Axis::linear(format!("goodput [Mbit/s], means over {WINDOW_MS} ms")),
        kind: Kind::Curves { shaded: lasted.map(|[begin, end]| [0.0, end - begin]) },
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sample;

    fn record(scenario: &'static str, policy: &str, recovery: Option<&'static str>) -> SprayRecord {
        let samples = vec![Sample { at_ms: 5.0, goodput_gbps: 0.1, acked_packets: 1, rto_ms: 4.0 }];
        let (policy, queue_pairs) = (policy.to_owned(), 1);
        let trouble_ms = vec![3.0, 9.0];
        let goodput_over_capacity = 0.9;
        SprayRecord {
            scenario,
            policy,
            recovery,
            queue_pairs,
            goodput_over_capacity,
            samples,
            trouble_ms,
            capacity_gbps: 0.1,
            ..SprayRecord::default()
        }
    }

    #[test]
    fn bars_stand_in_the_group_of_their_policy() {
        let runs = [
            record("clean", "pro", Some("sack")),
            record("clean", "ecmp", Some("sack")),
            record("clean", "pro", Some("nic-sr")),
            record("clean", "tcp", None),
        ];
        let figure = BARS[0].figure(&runs.each_ref());
        let places: Vec<(&str, Vec<f64>)> = figure
            .series
            .iter()
            .map(|series| (&*series.name, series.points.iter().map(|point| point.x).collect()))
            .collect();
        assert_eq!(places, [("sack", vec![0.0, 1.0]), ("nic-sr", vec![0.0]), ("tcp", vec![2.0])]);
        assert!(BARS[2].figure(&runs.each_ref()).series.is_empty(), "nobody has counted");
    }

    #[test]
    fn a_figure_is_drawn_where_there_are_runs() {
        let folder = std::env::temp_dir().join(format!("braid-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let runs = [record("clean", "pro", Some("sack")), record("cut", "pro", Some("sack"))];
        all(&folder, &runs).expect("figures");
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        assert!(read("clean-goodput.svg").expect("bars").contains("goodput / capacity"));
        assert!(read("cut-timeline.svg").expect("a timeline").contains("pro, sack"));
        assert!(read("slow-goodput.svg").is_err(), "none has run");
        all(&folder, &[record("defaults", "adaptive", Some("fifo-path"))]).expect("a figure");
        assert!(read("defaults.svg").expect("bars").contains("Braid"));
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
