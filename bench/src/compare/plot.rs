//! The figures as SVG files: one for each family and MTU.

use std::path::Path;

use braid_lab::charts::{Axis, Figure, Kind, Point, Series, draw};

use super::case::Family;
use super::trial::MeasuredCase;
use super::{block, heading};
use crate::failure::Failure;
use crate::interleave::report::figures;

/// Draws every figure for which there are runs.
pub(super) fn all(folder: &Path, measured: &[MeasuredCase]) -> Result<(), Failure> {
    let of = |one: &MeasuredCase| (one.case.family, one.case.mtu);
    measured.chunk_by(|a, b| of(a) == of(b)).try_for_each(|group| {
        let figure = figure(group);
        Ok(draw(&figure, &folder.join(format!("{}.svg", figure.id)))?)
    })
}

fn figure(group: &[MeasuredCase]) -> Figure {
    let (family, mtu) = (group[0].case.family, group[0].case.mtu);
    let mut names: Vec<&String> = Vec::new();
    for name in group.iter().flat_map(|of| &of.run.names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let series = names.into_iter().map(|name| {
        let point = |(index, of): (usize, &MeasuredCase)| {
            let values = figures(&of.run, family.metric(), name);
            (!values.is_empty()).then(|| Point::bar(index, heading(&of.case), &values))
        };
        Series { name: name.clone(), points: group.iter().enumerate().filter_map(point).collect() }
    });
    let y = match family {
        Family::MessageRate => "million messages a second",
        latency if latency.is_latency() => "median [us]",
        _ => "goodput [GB/s]",
    };
    Figure {
        id: block(family, mtu),
        title: format!("MTU {mtu}, {}", family.title()),
        x: Axis::linear("bytes of a message, or queue pairs"),
        y: Axis::linear(y),
        kind: Kind::Bars,
        series: series.collect(),
    }
}
