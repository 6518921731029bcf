//! Figure 6: four AllReduces of 250 MB under each control.

use super::causes;
use super::outcome::{MccOutcome, Reading, mark_rate, mean_utilisation};
use super::runs::MccRuns;
use super::scale::MccScale;
use super::setup::{MccScheme, MccSetup};
use super::trace::{Line, over_time};
use crate::{Axis, Figure, Kind, Point, Series, Study, Verdict};

/// Minimum utilisation for "nearly 100 percent".
const FULL: f64 = 0.97;
/// Utilisation below which a link is "underutilised".
const UNUSED: f64 = 0.9;
/// Percent by which MCC's completion time is lower.
const PAPERS_LESS: [f64; 2] = [16.0, 27.0];
/// Percent by which MCC's throughput is higher at most, and the tolerance.
const PAPERS_MORE: f64 = 22.0;
const NEAR: f64 = 3.0;

pub(super) fn add(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    study.figures.extend(links_over_time(scale, runs));
    study.figures.push(utilisations(scale, runs));
    study.figures.push(completion(scale, runs));
    utilisation_claims(scale, runs, study);
    completion_claims(scale, runs, study);
}

pub(super) fn setups(scale: &MccScale) -> Vec<MccSetup> {
    MccScheme::COMPARED.map(|scheme| setup(scale, scheme)).into()
}

fn setup(scale: &MccScale, scheme: MccScheme) -> MccSetup {
    MccSetup::new(scheme, scale.usual())
}

/// Plots utilisation and mark rate of both uplinks, a line per scheme.
fn links_over_time(scale: &MccScale, runs: &MccRuns) -> Vec<Figure> {
    let outcomes = MccScheme::COMPARED.map(|scheme| (scheme, runs.of(&setup(scale, scheme))));
    let figure = |link: usize, what: &str, label: &str, of: fn(&[Reading]) -> f64| {
        let lines = outcomes.each_ref().map(|(scheme, outcomes)| Line {
            name: scheme.name.to_owned(),
            run: &outcomes[0],
            link,
        });
        let name = ["l1", "l2"][link];
        let title = format!("{name} under each control");
        over_time(&format!("fig06a-{name}-{what}"), &title, label, &lines, of)
    };
    let utilisation = |link| figure(link, "utilisation", "utilisation [%]", mean_utilisation);
    let marks = |link| figure(link, "marks", "mark rate [%]", mark_rate);
    vec![utilisation(0), utilisation(1), marks(0), marks(1)]
}

fn utilisations(scale: &MccScale, runs: &MccRuns) -> Figure {
    let series = [0, 1].map(|link| Series {
        name: ["l1", "l2"][link].to_owned(),
        points: MccScheme::COMPARED
            .iter()
            .enumerate()
            .map(|(group, scheme)| {
                let values =
                    runs.values(&setup(scale, *scheme), |run| 100.0 * run.utilisation(link));
                Point::bar(group, scheme.name, &values)
            })
            .collect(),
    });
    Figure {
        id: "fig06a".to_owned(),
        title: "Uplinks while all four senders send".to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("mean utilisation [%]"),
        kind: Kind::Bars,
        series: series.into(),
    }
}

fn completion(scale: &MccScale, runs: &MccRuns) -> Figure {
    let points = |of: fn(&MccOutcome) -> f64| {
        let bars = MccScheme::COMPARED.iter().enumerate();
        bars.map(|(group, scheme)| {
            Point::bar(group, scheme.name, &runs.values(&setup(scale, *scheme), of))
        })
        .collect()
    };
    Figure {
        id: "fig06b".to_owned(),
        title: format!("Four AllReduces, {} together", MccScale::label(scale.usual())),
        x: Axis::linear(""),
        y: Axis::linear("completion time [ms]"),
        kind: Kind::Bars,
        series: vec![
            Series { name: "measured".to_owned(), points: points(|run| run.completion_ms) },
            Series { name: "bound".to_owned(), points: points(|run| run.bound_ms) },
        ],
    }
}

fn utilisation_claims(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let l1 = |scheme| runs.mean(&setup(scale, scheme), |run| run.utilisation(0));
    let percent = |scheme: MccScheme| {
        let setup = setup(scale, scheme);
        let of = |link: usize| 100.0 * runs.mean(&setup, |run| run.utilisation(link));
        format!("l1 {:.1} %, l2 {:.1} %", of(0), of(1))
    };
    study.claims.push(scale.claim(
        "fig06a",
        "under MCC l1 stays at nearly 100 % during partial congestion",
        percent(MccScheme::MCC),
        Verdict::of(l1(MccScheme::MCC) >= FULL, "MCC holds less in flight than l1 needs"),
    ));
    for scheme in [MccScheme::DCQCN, MccScheme::TIMELY] {
        let [two, one] = causes::two_paths_and_one(scale, runs, scheme);
        study.claims.push(scale.claim(
            "fig06a",
            &format!("{} underutilises l1 because of congestion in l2", scheme.name),
            percent(scheme),
            Verdict::of(l1(scheme) < UNUSED && two > one, causes::of_one_path(scale, runs, scheme)),
        ));
    }
}

fn completion_claims(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let time = |scheme| runs.completion_ms(&setup(scale, scheme));
    let mcc = time(MccScheme::MCC);
    let [dcqcn, timely] = [MccScheme::DCQCN, MccScheme::TIMELY].map(time);
    let early = runs.completion_ms(&causes::early_marks(scale));
    let more = |than: f64| 100.0 * (than / mcc - 1.0);
    let less = |than: f64| 100.0 * (1.0 - mcc / than);
    study.claims.push(scale.claim(
        "fig06b",
        "MCC has up to 22 % more throughput",
        format!("{:.1} % more than DCQCN, {:.1} % more than TIMELY", more(dcqcn), more(timely)),
        Verdict::of(
            (more(dcqcn).max(more(timely)) - PAPERS_MORE).abs() <= NEAR,
            causes::with_early_marks(format!("MCC has {:.1} % more than DCQCN", more(early))),
        ),
    ));
    for (name, time, why) in [
        ("DCQCN", dcqcn, causes::with_early_marks(format!("it is {:.1} %", less(early)))),
        ("TIMELY", timely, causes::of_one_path(scale, runs, MccScheme::TIMELY)),
    ] {
        let bound = runs.of(&setup(scale, MccScheme::MCC))[0].bound_ms;
        study.claims.push(scale.claim(
            "fig06b",
            &format!("MCC's completion time is 16 to 27 % below {name}'s"),
            format!("{mcc:.2} and {time:.2} ms: {:.1} %", less(time)),
            Verdict::of(
                (PAPERS_LESS[0]..=PAPERS_LESS[1]).contains(&less(time)),
                format!(
                    "no control could be more than {:.1} % below: the bound is {bound:.2} ms; \
                    {why}",
                    100.0 * (1.0 - bound / time)
                ),
            ),
        ));
    }
}
