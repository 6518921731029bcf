//! Plots of an uplink over time.

use super::outcome::{INTERVAL, MccOutcome, Reading};
use crate::{Axis, Figure, Kind, Point, Series};

/// Maximum number of points of a line.
const POINTS: usize = 60;

/// A line: its name, the run, the uplink.
pub(super) struct Line<'a> {
    pub(super) name: String,
    pub(super) run: &'a MccOutcome,
    pub(super) link: usize,
}

/// Plots `of`, in percent, over equal parts of the time.
pub(super) fn over_time(
    id: &str,
    title: &str,
    label: &str,
    lines: &[Line<'_>],
    of: fn(&[Reading]) -> f64,
) -> Figure {
    let readings = |line: &Line<'_>| line.run.links[line.link].readings.len();
    let longest = lines.iter().map(readings).max().unwrap_or(0);
    let stretch = longest.div_ceil(POINTS).max(1);
    let series = lines.iter().map(|line| Series {
        name: line.name.clone(),
        points: points(&line.run.links[line.link].readings, stretch, of),
    });
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        x: Axis::linear("time [ms]"),
        y: Axis::linear(label),
        kind: Kind::Curves { shaded: None },
        series: series.collect(),
    }
}

/// Returns a point at the end of each part of `stretch` readings. An incomplete part at the end is
/// left out.
fn points(readings: &[Reading], stretch: usize, of: fn(&[Reading]) -> f64) -> Vec<Point> {
    let end_ms = |index: usize| ((index + 1) * stretch) as f64 * INTERVAL.as_micros_f64() / 1e3;
    let stretches = readings.chunks_exact(stretch).enumerate();
    stretches.map(|(index, part)| Point::at(end_ms(index), &[100.0 * of(part)])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::outcome::mark_rate;
    use super::*;

    #[test]
    fn each_stretch_is_a_point_in_percent() {
        let reading = |packets, marked| Reading { utilisation: 1.0, packets, marked };
        let readings =
            [reading(100, 1), reading(300, 3), reading(10, 10), reading(90, 0), reading(5, 5)];
        let seen = points(&readings, 2, mark_rate);
        let seen: Vec<(f64, f64)> = seen.iter().map(|point| (point.x, point.y.mean)).collect();
        assert_eq!(seen, [(0.2, 1.0), (0.4, 10.0)]);
    }
}
