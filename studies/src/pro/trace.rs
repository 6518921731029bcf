//! Lines over time.

use crate::Point;
use braid_sim::time::Ps;

/// Approximate number of points of a line.
const POINTS: u64 = 60;

/// Returns the highest reading of each part of the time. The parts depend on `span`, which is the
/// same for compared lines. Readings after one and a half spans are left out.
pub(super) fn peaks(readings: impl IntoIterator<Item = (Ps, f64)>, span: Ps) -> Vec<Point> {
    let stretch = (span.0 / POINTS).max(1);
    let mut highest: Vec<f64> = Vec::new();
    for (at, value) in readings.into_iter().filter(|(at, _)| at.0 <= span.0 / 2 * 3) {
        let index = (at.0 / stretch) as usize;
        highest.resize(highest.len().max(index + 1), 0.0);
        highest[index] = highest[index].max(value);
    }
    let time = |index: usize| Ps(index as u64 * stretch).as_micros_f64();
    highest.iter().enumerate().map(|(index, value)| Point::at(time(index), &[*value])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_shows_its_peak_and_late_readings_are_left_out() {
        let readings = [(1, 5.0), (9, 7.0), (10, 1.0), (35, 4.0), (901, 9.0)];
        let points = peaks(readings.map(|(at, value)| (Ps(at), value)), Ps(600));
        let seen: Vec<f64> = points.iter().map(|point| point.y.mean).collect();
        assert_eq!(seen, [7.0, 1.0, 0.0, 4.0]);
    }
}
