//! Experiments beyond the paper, which explain why its claims are reproduced or not.

use super::outcome::MccOutcome;
use super::runs::MccRuns;
use super::scale::MccScale;
use super::setup::{Fabric, MccScheme, MccSetup, Routing, Thresholds};
use crate::{Axis, Figure, Kind, Point, Series, Study};

/// The thresholds of DCQCN's own paper: 5 to 200 KB on links of 40 Gb/s (with a Pmax of 1 %, here
/// 20 %).
const EARLY: Thresholds = Thresholds { low: 5_000, high: 200_000, by_speed: true };
/// A quarter of HPCC's thresholds.
const QUARTER: Thresholds = Thresholds { low: 100_000, high: 400_000, by_speed: true };
/// The thresholds of l1 for l2 too.
const ALIKE: Thresholds = Thresholds { by_speed: false, ..Thresholds::HPCC };
const MARKING: [(&str, Thresholds); 3] =
    [("400/1600 KB", Thresholds::HPCC), ("100/400 KB", QUARTER), ("5/200 KB", EARLY)];
const TIMERS: [MccScheme; 3] = [MccScheme::DCQCN, MccScheme::DCQCN_300, MccScheme::DCQCN_55];

/// A change to figure 6's network.
type MccChange = (&'static str, fn(MccSetup) -> MccSetup);

const CHANGES: [MccChange; 7] = [
    ("l1 and l2", |usual| usual),
    ("one path of 150 Gb/s", |usual| MccSetup { fabric: Fabric::OnePath, ..usual }),
    ("l2 slow both ways", |usual| MccSetup { fabric: Fabric::SlowBothWays, ..usual }),
    ("quantised routing", |usual| MccSetup { routing: Routing::Quantised, ..usual }),
    ("marks from 5 KB", |usual| MccSetup { marking: EARLY, ..usual }),
    ("1000 B packets", |usual| MccSetup { payload: 1000, ..usual }),
    ("l2 marks as l1", |usual| MccSetup { marking: ALIKE, ..usual }),
];
/// A single pair, whose sender alone overloads l2 unless it avoids l2.
const ONE_PAIR: MccChange = ("one pair", |usual| MccSetup { pairs: 1, ..usual });
/// Early marks without a second path.
const ONE_PATH_EARLY: MccChange = ("one path, marks from 5 KB", |usual| MccSetup {
    fabric: Fabric::OnePath,
    marking: EARLY,
    ..usual
});

pub(super) fn setups(scale: &MccScale) -> Vec<MccSetup> {
    let usual = |scheme| MccSetup::new(scheme, scale.usual());
    let changed = MccScheme::COMPARED.into_iter().flat_map(|scheme| {
        CHANGES.into_iter().chain([ONE_PAIR]).map(move |(_, of)| of(usual(scheme)))
    });
    let tuned = TIMERS
        .into_iter()
        .flat_map(|scheme| MARKING.map(|(_, marking)| MccSetup { marking, ..usual(scheme) }));
    changed.chain(tuned).chain([ONE_PATH_EARLY.1(usual(MccScheme::DCQCN))]).collect()
}

pub(super) fn add(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    study.figures.push(by_change(scale, runs));
    study.figures.push(by_timers(scale, runs));
    study.choices.push(both_ways(scale, runs));
    study.choices.push(small_packets(scale, runs));
    study.choices.push(one_pair(scale, runs));
    study.choices.push(format!(
        "Packets out of order cost nothing, and a lost one would be made up for at once: {} were \
            lost in all runs",
        runs.lost()
    ));
}

fn by_change(scale: &MccScale, runs: &MccRuns) -> Figure {
    let series = MccScheme::COMPARED.map(|scheme| Series {
        name: scheme.name.to_owned(),
        points: CHANGES
            .iter()
            .enumerate()
            .map(|(group, (name, of))| {
                let setup = of(MccSetup::new(scheme, scale.usual()));
                Point::bar(group, *name, &runs.values(&setup, over_bound))
            })
            .collect(),
    });
    Figure {
        id: "causes-network".to_owned(),
        title: "Completion time over the bound on other networks".to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("completion time over the bound [%]"),
        kind: Kind::Bars,
        series: series.into(),
    }
}

fn by_timers(scale: &MccScale, runs: &MccRuns) -> Figure {
    let series = TIMERS.map(|scheme| Series {
        name: scheme.name.to_owned(),
        points: MARKING
            .iter()
            .enumerate()
            .map(|(group, (name, marking))| {
                let setup = MccSetup { marking: *marking, ..MccSetup::new(scheme, scale.usual()) };
                Point::bar(group, *name, &runs.values(&setup, over_bound))
            })
            .collect(),
    });
    Figure {
        id: "causes-dcqcn".to_owned(),
        title: "DCQCN by thresholds (Kmin/Kmax at 100 Gb/s) and timers (increase/cut, us)"
            .to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("completion time over the bound [%]"),
        kind: Kind::Bars,
        series: series.into(),
    }
}

/// Returns the percent over the bound.
fn over_bound(run: &MccOutcome) -> f64 {
    100.0 * (run.completion_ms / run.bound_ms - 1.0)
}

fn percent(
    scale: &MccScale,
    runs: &MccRuns,
    scheme: MccScheme,
    of: fn(MccSetup) -> MccSetup,
) -> f64 {
    runs.mean(&of(MccSetup::new(scheme, scale.usual())), over_bound)
}

/// Returns the percent over the bound on two paths and on one.
pub(super) fn two_paths_and_one(scale: &MccScale, runs: &MccRuns, scheme: MccScheme) -> [f64; 2] {
    [CHANGES[0], CHANGES[1]].map(|(_, of)| percent(scale, runs, scheme, of))
}

/// Describes the cost of a second path for a controller with feedback per packet.
pub(super) fn of_one_path(scale: &MccScale, runs: &MccRuns, scheme: MccScheme) -> String {
    let [two, one] = two_paths_and_one(scale, runs, scheme);
    format!(
        "over one path of the same capacity, where there is nothing to misread, {} is {one:.1} % \
            over the bound, over l1 \
         and l2 {two:.1} %",
        scheme.name
    )
}

/// Returns DCQCN with the same thresholds on both links.
pub(super) fn marks_alike(scale: &MccScale) -> MccSetup {
    MccSetup { marking: ALIKE, ..MccSetup::new(MccScheme::DCQCN, scale.usual()) }
}

/// Returns DCQCN with marks from 5 KB on.
pub(super) fn early_marks(scale: &MccScale) -> MccSetup {
    MccSetup { marking: EARLY, ..MccSetup::new(MccScheme::DCQCN, scale.usual()) }
}

/// Describes a number that changes if DCQCN is marked early.
pub(super) fn with_early_marks(what: impl std::fmt::Display) -> String {
    format!(
        "the paper does not state its thresholds, and they decide: with Kmin 5 KB and Kmax 200 KB \
            {what}"
    )
}

/// Describes the causes of DCQCN's loss.
pub(super) fn of_dcqcn(scale: &MccScale, runs: &MccRuns) -> String {
    let early = early_marks(scale);
    let time = runs.completion_ms(&early);
    let pause = runs.completion_ms(&MccSetup::new(MccScheme::PAUSE, scale.usual()));
    let what = format!(
        "(as in DCQCN's own paper) it takes {time:.2} ms, {:.2} times that without control, and \
            {:.1} % over the bound where one \
         path is {:.1} %: there a second path costs what the paper says. With HPCC's it does not: \
         {}",
        time / pause,
        runs.mean(&early, over_bound),
        percent(scale, runs, MccScheme::DCQCN, ONE_PATH_EARLY.1),
        of_one_path(scale, runs, MccScheme::DCQCN)
    );
    with_early_marks(what)
}

fn of_each(scale: &MccScale, runs: &MccRuns, (_, of): MccChange) -> String {
    let texts = MccScheme::COMPARED.map(|scheme| {
        let setup = of(MccSetup::new(scheme, scale.usual()));
        let pauses = runs.mean(&setup, |run| run.pauses as f64);
        let marks = runs
            .mean(&setup, |run| (0..run.links.len()).map(|of| run.marks(of)).sum::<u64>() as f64);
        let time = runs.completion_ms(&setup);
        format!("{} {time:.2} ms ({marks:.0} marks, {pauses:.0} pauses)", scheme.name)
    });
    texts.join(", ")
}

fn both_ways(scale: &MccScale, runs: &MccRuns) -> String {
    format!(
        "The paper names l2 by one direction, from leaf 0 to spine 1, and only that one is slow \
            here. If its way back is slow as \
         well, leaf 1 does not see it: its own uplinks are alike, it fills them evenly, and what \
         spine 1 cannot pass on waits \
         there. Only pause frames tell leaf 1: {}",
        of_each(scale, runs, CHANGES[2])
    )
}

fn small_packets(scale: &MccScale, runs: &MccRuns) -> String {
    format!(
        "Packets have 4096 B of payload, 62 B of headers, and are acknowledged by 64 B each; with \
            them the bound is above that of \
         payload alone. With 1000 B: {}",
        of_each(scale, runs, CHANGES[5])
    )
}

fn one_pair(scale: &MccScale, runs: &MccRuns) -> String {
    format!(
        "Four servers at 100 Gb/s have 150 Gb/s of uplinks: without control both queues fill, and \
            that is global congestion as \
         well. With one pair alone only l2 could be overloaded, if the shortest queue did not \
         keep it from it: {}",
        of_each(scale, runs, ONE_PAIR)
    )
}
