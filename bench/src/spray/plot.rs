//! The figures as SVG files.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::record::Record;
use crate::failure::Failure;

const SIZE: (u32, u32) = (1100, 480);
/// Told apart with any kind of colour blindness (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(110, 110, 110),
];
const TROUBLE: RGBColor = RGBColor(240, 228, 200);
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Every figure for which there are runs.
pub(super) fn all(folder: &Path, records: &[Record]) -> Result<(), Failure> {
    let of = |scenario: &str| -> Vec<&Record> {
        records.iter().filter(|record| record.scenario == scenario).collect()
    };
    let clean = of("clean");
    if !clean.is_empty() {
        let goodput = Bars {
            title: "Goodput of each path policy, by loss recovery",
            unit: "goodput / capacity",
            value: |r| Some(r.goodput_over_capacity),
        };
        draw(folder, "clean-goodput.svg", |area| goodput.draw(area, &clean))?;
        let balance = Bars {
            title: "Balance of the spines",
            unit: "bytes of the fullest link / mean",
            value: |r| Some(r.link_max_over_mean),
        };
        draw(folder, "clean-balance.svg", |area| balance.draw(area, &clean))?;
        let order = Bars {
            title: "Out-of-order degree, 99th percentile",
            unit: "packets",
            value: |r| r.ooo_p99.map(|degree| degree as f64),
        };
        draw(folder, "clean-order.svg", |area| order.draw(area, &clean))?;
    }
    let slow = of("slow");
    if !slow.is_empty() {
        let goodput = Bars {
            title: "One spine at a tenth of its rate",
            unit: "goodput / capacity",
            value: |r| Some(r.goodput_over_capacity),
        };
        draw(folder, "slow-goodput.svg", |area| goodput.draw(area, &slow))?;
    }
    for (scenario, file) in [("cut", "cut-timeline.svg"), ("cut-two", "cut-two-timeline.svg")] {
        let runs = of(scenario);
        if !runs.is_empty() {
            draw(folder, file, |area| timelines(area, &runs))?;
        }
    }
    Ok(())
}

fn draw(folder: &Path, name: &str, figure: impl FnOnce(&Area<'_>) -> Drawn) -> Result<(), Failure> {
    let path = folder.join(name);
    let result = (|| {
        let area = SVGBackend::new(&path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        figure(&area)?;
        Ok(area.present()?)
    })();
    result.map_err(|why: Box<dyn std::error::Error>| Failure::Plot { why: why.to_string(), path })
}

/// Bars in groups: a group per sender, a bar per loss recovery.
struct Bars {
    title: &'static str,
    unit: &'static str,
    value: fn(&Record) -> Option<f64>,
}

impl Bars {
    fn draw(&self, area: &Area<'_>, records: &[&Record]) -> Drawn {
        let mut groups: Vec<String> = Vec::new();
        let mut series: Vec<&str> = Vec::new();
        for record in records {
            let (group, bar) = (group(record), record.recovery.unwrap_or("tcp"));
            if (self.value)(record).is_some() && !groups.contains(&group) {
                groups.push(group);
            }
            if !series.contains(&bar) {
                series.push(bar);
            }
        }
        let highest = records.iter().filter_map(|r| (self.value)(r)).fold(0.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..groups.len() as f64 - 0.5, 0.0..highest.max(0.1) * 1.15)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(groups.len())
            .x_label_formatter(&|x| label(&groups, *x))
            .x_desc("path policy")
            .y_desc(self.unit)
            .label_style((FONT, 13))
            .draw()?;
        for (index, name) in series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let of_series = records.iter().filter(|r| r.recovery.unwrap_or("tcp") == *name);
            let bars = of_series.filter_map(|record| {
                let place = groups.iter().position(|name| *name == group(record))? as f64;
                // TCP has its groups for itself.
                let (left, width) = match record.recovery {
                    Some(_) => (
                        place - 0.4 + 0.8 * index as f64 / self.bars(&series),
                        0.8 / self.bars(&series),
                    ),
                    None => (place - 0.1, 0.2),
                };
                let corners = [(left, 0.0), (left + width * 0.92, (self.value)(record)?)];
                Some(Rectangle::new(corners, colour.filled()))
            });
            let drawn = chart.draw_series(bars)?;
            drawn.label(*name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
        }
        legend(&mut chart)
    }

    fn bars(&self, series: &[&str]) -> f64 {
        series.iter().filter(|name| **name != "tcp").count().max(1) as f64
    }
}

fn group(record: &Record) -> String {
    match record.queue_pairs {
        1 => record.policy.clone(),
        several => format!("{} x {several}", record.policy),
    }
}

fn label(groups: &[String], x: f64) -> String {
    let whole = (x - x.round()).abs() < 1e-6 && x >= -0.5;
    if whole { groups.get(x.round() as usize).cloned().unwrap_or_default() } else { String::new() }
}

/// Goodput over time, the trouble shaded.
fn timelines(area: &Area<'_>, records: &[&Record]) -> Drawn {
    let samples = || records.iter().flat_map(|record| &record.samples);
    let last = samples().map(|sample| sample.at_ms).fold(0.0, f64::max);
    let capacity = records.iter().map(|record| record.capacity_gbps * 1e3).fold(0.0, f64::max);
    // Completions after a hole come in bursts far above the capacity; they are cut off.
    let top = 1.5 * capacity;
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput while spines are black holes (shaded)", (FONT, 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..last.max(1.0), 0.0..top)?;
    if let Some([from, until]) = records.first().and_then(|r| r.trouble_ms.first_chunk::<2>()) {
        chart.draw_series([Rectangle::new([(*from, 0.0), (*until, top)], TROUBLE.filled())])?;
    }
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("time [ms]")
        .y_desc("goodput [Mbit/s], samples of 5 ms")
        .label_style((FONT, 13))
        .draw()?;
    for (index, record) in records.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points = record.samples.iter().map(|s| (s.at_ms, (s.goodput_gbps * 1e3).min(top)));
        let name = format!("{}, {}", record.policy, record.recovery.unwrap_or("-"));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(1)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
    }
    legend(&mut chart)
}

fn legend<'a, X: Ranged, Y: Ranged>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}
