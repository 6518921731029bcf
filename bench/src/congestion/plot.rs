//! The figures as SVG files.

use std::collections::BTreeMap;
use std::path::Path;

use braid_lab::charts::{Axis, Figure, Kind, Point, Series, draw};

use super::metric::Metric;
use super::record::ControllerRecord;
use super::trace::TraceSample;
use crate::failure::Failure;

/// A bar chart: a group per case, a bar per controller.
struct ControllerBars {
    scenario: &'static str,
    id: &'static str,
    title: &'static str,
    metric: Metric,
}

const BARS: &[ControllerBars] = &[
    ControllerBars {
        scenario: "bottleneck",
        id: "bottleneck-goodput",
        title: "Goodput of one queue pair at one bottleneck",
        metric: Metric::GoodputOverCapacity,
    },
    ControllerBars {
        scenario: "bottleneck",
        id: "bottleneck-queue",
        title: "Queueing delay, 99th percentile",
        metric: Metric::QueueP99Ms,
    },
    ControllerBars {
        scenario: "tcp",
        id: "tcp-share",
        title: "Share of TCP beside one queue pair",
        metric: Metric::TcpShare,
    },
    ControllerBars {
        scenario: "fairness",
        id: "fairness",
        title: "Fairness among eight",
        metric: Metric::JainIndex,
    },
    ControllerBars {
        scenario: "spines",
        id: "spines-goodput",
        title: "Goodput over spines of unequal rates",
        metric: Metric::GoodputOverCapacity,
    },
    ControllerBars {
        scenario: "incast",
        id: "incast-loss",
        title: "Loss at a port that eight hosts send to",
        metric: Metric::LossPercent,
    },
    ControllerBars {
        scenario: "ecn",
        id: "ecn-queue",
        title: "Queueing delay where the queue marks, 99th percentile",
        metric: Metric::QueueP99Ms,
    },
];

/// Draws every figure for which there are runs.
pub(super) fn all(folder: &Path, records: &[ControllerRecord]) -> Result<(), Failure> {
    for bars in BARS {
        let runs: Vec<&ControllerRecord> =
            records.iter().filter(|record| record.scenario == bars.scenario).collect();
        if !runs.is_empty() {
            draw(&bars.figure(&runs), &folder.join(format!("{}.svg", bars.id)))?;
        }
    }
    let timelines = records.iter().filter_map(|record| match record.scenario {
        "cross" => Some(timeline(record, |sample| format!("host {}", sample.from_host))),
        "spines" => Some(timeline(record, |sample| format!("link {}", sample.link))),
        _ => None,
    });
    for (number, figure) in timelines.enumerate() {
        draw(&figure, &folder.join(format!("{}-{number}.svg", figure.id)))?;
    }
    Ok(())
}

/// Plots the traffic over time in the last round, with a curve per host or per link.
fn timeline(record: &ControllerRecord, curve: fn(&TraceSample) -> String) -> Figure {
    let mut curves: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for sample in &record.samples {
        let point = Point::at(sample.at_ms, &[sample.mbit_s]);
        curves.entry(curve(sample)).or_default().push(point);
    }
    let series = curves.into_iter().map(|(name, points)| Series { name, points });
    Figure {
        id: format!("{}-timeline", record.scenario),
        title: format!("{}, {}", record.congestion_control, record.case),
        x: Axis::linear("time [ms]"),
        y: Axis::linear("passed [Mbit/s]"),
        kind: Kind::Curves { shaded: None },
        series: series.collect(),
    }
}

impl ControllerBars {
    fn figure(&self, records: &[&ControllerRecord]) -> Figure {
        let mut groups: Vec<&str> = records.iter().map(|record| &*record.case).collect();
        groups.dedup();
        let mut series: Vec<Series> = Vec::new();
        for record in records {
            let Some(figures) = record.rounds.get(&self.metric) else { continue };
            let name = &record.congestion_control;
            let at = series.iter().position(|series| series.name == *name).unwrap_or_else(|| {
                series.push(Series { name: name.clone(), points: Vec::new() });
                series.len() - 1
            });
            let group = groups.iter().position(|group| *group == record.case).unwrap_or(0);
            // Cases are many and their names long, so the table names them, in the same order.
            series[at].points.push(Point::bar(group, (group + 1).to_string(), figures));
        }
        Figure {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            x: Axis::linear("case, in the order of the table"),
            y: Axis::linear(self.metric.heading()),
            kind: Kind::Bars,
            series,
        }
    }
}
