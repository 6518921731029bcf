//! What a figure shows.

use serde::Serialize;

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its short name, such as `fig06a`. Its file is called so.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// How it is drawn.
    pub kind: Kind,
    /// One per scheme.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    /// Whether it is logarithmic; then no value on it may be 0 or less.
    pub log: bool,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line per series, with its points and their spread.
    Lines,
    /// A line per series: so many points that none is shown.
    Curves {
        /// Shaded from the first place on the x axis to the second.
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

/// One of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Where; for bars, the number of the group.
    pub x: f64,
    /// For bars: what the group is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What was measured.
    pub y: Spread,
}

/// A quantity over several runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Its mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Over so many runs.
    pub runs: u32,
}

impl Axis {
    /// Equal steps.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false }
    }

    /// Equal factors.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true }
    }
}

impl Spread {
    /// Of what was measured.
    ///
    /// # Panics
    /// If nothing was.
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

    /// A bar in a group, by the group's number and name.
    pub fn bar(group: usize, label: impl Into<String>, values: &[f64]) -> Point {
        Point { x: group as f64, label: Some(label.into()), y: Spread::of(values) }
    }
}

impl Figure {
    /// A series by its name.
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
