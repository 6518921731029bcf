//! The figures as SVG files.

use std::path::Path;

use braid_charts::{Axis, Figure, Kind, Point, Series, draw};

use super::metric::Metric;
use super::record::Record;
use crate::failure::Failure;

/// Bars in groups: a group per case, a bar per controller.
struct Bars {
    scenario: &'static str,
    id: &'static str,
    title: &'static str,
    metric: Metric,
}

const BARS: &[Bars] = &[
    Bars {
        scenario: "bottleneck",
        id: "bottleneck-goodput",
        title: "Goodput of one queue pair at one bottleneck",
        metric: Metric::GoodputOverCapacity,
    },
    Bars {
        scenario: "bottleneck",
        id: "bottleneck-queue",
        title: "Queueing delay, 99th percentile",
        metric: Metric::QueueP99Ms,
    },
];

/// Every figure for which there are runs.
pub(super) fn all(folder: &Path, records: &[Record]) -> Result<(), Failure> {
    for bars in BARS {
        let runs: Vec<&Record> =
            records.iter().filter(|record| record.scenario == bars.scenario).collect();
        if !runs.is_empty() {
            draw(&bars.figure(&runs), &folder.join(format!("{}.svg", bars.id)))?;
        }
    }
    Ok(())
}

impl Bars {
    fn figure(&self, records: &[&Record]) -> Figure {
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
            // Cases are many and their names long: they stand in the table, in the same order.
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
