//! The content of a figure.

use serde::Serialize;

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The short name, such as `fig06a`, which is also that of the file.
    pub id: String,
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The style.
    pub kind: Kind,
    /// One per scheme.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// Whether the axis is logarithmic. Then all values must be above 0.
    pub log: bool,
}

/// The style of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line per series, with its points and their spread.
    Lines,
    /// A line per series without its points, because there are too many.
    Curves {
        /// The shaded region, from the first value on the x axis to the second.
        shaded: Option<[f64; 2]>,
    },
    /// A group of bars per label, in it a bar per series.
    Bars,
}

/// The points of one scheme.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// The scheme.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A point of a series.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// The place on the x axis. For bars: the number of the group.
    pub x: f64,
    /// For bars: the name of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The measured quantity.
    pub y: Spread,
}

/// A quantity over several runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The number of runs.
    pub runs: u32,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true }
    }
}

impl Spread {
    /// The spread of some values.
    ///
    /// # Panics
    /// There are no values.
    pub fn of(values: &[f64]) -> Spread {
        assert!(!values.is_empty(), "a spread needs at least one run");
        Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: values.len() as u32,
        }
    }
}

impl Point {
    /// A point of a line.
    pub fn at(x: f64, values: &[f64]) -> Point {
        Point { x, label: None, y: Spread::of(values) }
    }

    /// A bar in the group of this number and name.
    pub fn bar(group: usize, label: impl Into<String>, values: &[f64]) -> Point {
        Point { x: group as f64, label: Some(label.into()), y: Spread::of(values) }
    }
}

impl Figure {
    /// The series of this name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_mean_and_both_ends() {
        let spread = Spread::of(&[2.0, 7.0, 3.0]);
        assert_eq!(spread, Spread { mean: 4.0, min: 2.0, max: 7.0, runs: 3 });
    }
}
