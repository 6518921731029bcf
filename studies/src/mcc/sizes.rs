//! Figure 2: DCQCN compared with no control, for three sizes.

use super::causes;
use super::runs::MccRuns;
use super::scale::MccScale;
use super::setup::{MccScheme, MccSetup};
use crate::{Axis, Figure, Kind, Point, Series, Study, Verdict};

/// DCQCN's time over that without control in the paper's text, and the tolerance.
const PAPERS_RATIO: f64 = 1.51;
const NEAR: f64 = 0.1;
/// The paper's upper limit of DCQCN's throughput over capacity.
const PAPERS_THROUGHPUT: f64 = 0.6;

pub(super) fn setups(scale: &MccScale) -> Vec<MccSetup> {
    let of_size = |bytes: u64| MccScheme::COMPARED.map(|scheme| MccSetup::new(scheme, bytes));
    scale.server_bytes().into_iter().flat_map(of_size).collect()
}

pub(super) fn add(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    study.figures.push(bars(scale, "fig02a", "completion time [ms]", |setup| {
        runs.values(setup, |run| run.completion_ms)
    }));
    study.figures.push(bars(
        scale,
        "fig02b",
        "throughput over the network's capacity [%]",
        |setup| runs.values(setup, |run| 100.0 * run.throughput()),
    ));
    claims(scale, runs, study);
}

fn bars(scale: &MccScale, id: &str, label: &str, values: impl Fn(&MccSetup) -> Vec<f64>) -> Figure {
    let series = MccScheme::COMPARED.map(|scheme| Series {
        name: scheme.name.to_owned(),
        points: (0..)
            .zip(scale.server_bytes())
            .map(|(group, bytes)| {
                Point::bar(group, MccScale::label(bytes), &values(&MccSetup::new(scheme, bytes)))
            })
            .collect(),
    });
    Figure {
        id: id.to_owned(),
        title: "Four pairs over l1 and l2, by the sum of what one direction carries".to_owned(),
        x: Axis::linear(""),
        y: Axis::linear(label),
        kind: Kind::Bars,
        series: series.into(),
    }
}

fn claims(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let sizes = scale.server_bytes();
    let time = |scheme, bytes| runs.completion_ms(&MccSetup::new(scheme, bytes));
    let pairs = sizes.map(|bytes| (time(MccScheme::PAUSE, bytes), time(MccScheme::DCQCN, bytes)));
    let text = |of: &dyn Fn(u64) -> String| {
        sizes.map(|bytes| format!("{} {}", MccScale::label(bytes), of(bytes))).join(", ")
    };
    study.claims.push(scale.claim(
        "fig02",
        "without control (PFC + AR) every size takes less time than with DCQCN + AR",
        text(&|bytes| {
            let (pause, dcqcn) = (time(MccScheme::PAUSE, bytes), time(MccScheme::DCQCN, bytes));
            format!("{pause:.2} and {dcqcn:.2} ms")
        }),
        Verdict::of(pairs.iter().all(|(pause, dcqcn)| pause < dcqcn), "DCQCN is not slower here"),
    ));
    let ratio = |bytes| time(MccScheme::DCQCN, bytes) / time(MccScheme::PAUSE, bytes);
    study.claims.push(scale.claim(
        "fig02",
        "DCQCN takes about 1.51 times as long",
        text(&|bytes| format!("{:.2} times", ratio(bytes))),
        Verdict::of(
            sizes.iter().all(|bytes| (ratio(*bytes) - PAPERS_RATIO).abs() < NEAR),
            causes::of_dcqcn(scale, runs),
        ),
    ));
    let throughput =
        |bytes| runs.mean(&MccSetup::new(MccScheme::DCQCN, bytes), |run| run.throughput());
    study.claims.push(scale.claim(
        "fig02",
        "DCQCN's normalised throughput stays below 60 %",
        text(&|bytes| format!("{:.1} %", 100.0 * throughput(bytes))),
        Verdict::of(
            sizes.iter().all(|bytes| throughput(*bytes) < PAPERS_THROUGHPUT),
            causes::with_early_marks(format!(
                "it is {:.1} %",
                100.0 * runs.mean(&causes::early_marks(scale), |run| run.throughput())
            )),
        ),
    ));
}
