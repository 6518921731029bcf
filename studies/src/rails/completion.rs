//! Figures 8 and 9: the completion of flows under uniform and sparse loads.

use super::bandwidth::loads;
use super::causes;
use super::load::Load;
use super::outcome::RailsOutcome;
use super::results::{Results, bars, claim, is_near, is_within, listed, range};
use super::scheme::RailsScheme;
use crate::{Axis, Claim, Figure, Kind, Point, Series, Study, Verdict};

/// Number of points of a curve.
const STEPS: u32 = 20;
/// The totals of PLB over RailS', and over ECMP's; that of MinRTT over RailS'.
const PAPERS_PLB: [f64; 2] = [1.18, 0.89];
const PAPERS_MIN_RTT: f64 = 1.04;
/// Mean over total that counts as very close.
const CLOSE: f64 = 0.9;
const SPARSEST_SOONER: f64 = 1.5;
const SOONER: [f64; 2] = [17.0, 78.0];

/// A quantity with its name in the figures.
pub(super) type Quantity = (&'static str, fn(&RailsOutcome) -> f64);

const QUANTITIES: [Quantity; 5] = [
    ("mean", RailsOutcome::mean_us),
    ("p80", |run| run.percentile_us(80.0)),
    ("p95", |run| run.percentile_us(95.0)),
    ("p99", |run| run.percentile_us(99.0)),
    ("total", RailsOutcome::total_us),
];

pub(super) fn add(results: &Results, study: &mut Study) {
    for (letter, (name, load)) in ('a'..).zip(loads()) {
        study.figures.push(curve(results, &format!("fig08{letter}"), name, load));
    }
    for (letter, (name, load)) in ('a'..).zip(loads()) {
        let base = (RailsScheme::RAILS, RailsOutcome::total_us as fn(&RailsOutcome) -> f64);
        study.figures.push(bars(
            [
                &format!("fig09{letter}"),
                &format!("Completion times of flows, {name}"),
                "over RailS' last flow",
            ],
            &QUANTITIES,
            &RailsScheme::COMPARED,
            |scheme, of| results.over((scheme, of), base, load),
        ));
    }
    uniform(results, study);
    sparse(results, study);
}

/// Plots the share of delivered flows over time, relative to RailS' last flow.
pub(super) fn curve(results: &Results, id: &str, name: &str, load: Load) -> Figure {
    let last = results.mean(RailsScheme::RAILS, load, RailsOutcome::total_us);
    let series = RailsScheme::COMPARED.map(|scheme| {
        let points = (1..=STEPS).map(|step| {
            let percent = 100.0 * f64::from(step) / f64::from(STEPS);
            let runs = results.of(scheme, load);
            let times: Vec<f64> =
                runs.iter().map(|run| run.percentile_us(percent) / last).collect();
            Point::at(percent, &times)
        });
        Series { name: scheme.name.to_owned(), points: points.collect() }
    });
    Figure {
        id: id.to_owned(),
        title: format!("Flows completed, {name}"),
        x: Axis::linear("flows [%]"),
        y: Axis::linear("completed after [times RailS' last]"),
        kind: Kind::Lines,
        series: series.into(),
    }
}

fn uniform(results: &Results, study: &mut Study) {
    let load = Load::UNIFORM;
    let total_over = |scheme, base| results.times(base, scheme, load);
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let reps = total_over(RailsScheme::REPS, RailsScheme::RAILS);
    study.claims.push(claim(
        "fig08a, fig09a",
        "REPS completes as RailS does",
        format!("{:+.1} %", percent(reps)),
        Verdict::of(is_near(reps, 1.0), causes::collisions()),
    ));
    let mean = |scheme| results.mean(scheme, load, RailsOutcome::mean_us);
    let min_rtt = total_over(RailsScheme::MIN_RTT, RailsScheme::RAILS);
    let is_lowest =
        RailsScheme::COMPARED.iter().all(|other| mean(RailsScheme::MIN_RTT) <= mean(*other));
    study.claims.push(claim(
        "fig08a, fig09a",
        "MinRTT has the lowest mean completion time, and 4 % more in total than RailS",
        format!(
            "means: {}; MinRTT {:+.1} % in total",
            listed(&RailsScheme::COMPARED, |scheme| format!("{:.0} us", mean(scheme))),
            percent(min_rtt)
        ),
        Verdict::of(
            is_lowest && is_near(min_rtt, PAPERS_MIN_RTT),
            "the order in which a host serves its flows decides the mean, and the paper does not \
                say it: here all in turn, \
             so that none ends early",
        ),
    ));
    let plb =
        [RailsScheme::RAILS, RailsScheme::ECMP].map(|base| total_over(RailsScheme::PLB, base));
    study.claims.push(claim(
        "fig09a",
        "PLB takes 18 % more than RailS, and 11 % less than ECMP",
        format!("{:+.1} % and {:+.1} %", percent(plb[0]), percent(plb[1])),
        Verdict::of(
            is_near(plb[0], PAPERS_PLB[0]) && is_near(plb[1], PAPERS_PLB[1]),
            causes::collisions(),
        ),
    ));
    let share = |scheme| mean(scheme) / results.mean(scheme, load, RailsOutcome::total_us);
    study.claims.push(claim(
        "fig09a",
        "RailS' mean and tail percentiles are very close",
        format!(
            "means over totals: {}",
            listed(&RailsScheme::COMPARED, |scheme| format!("{:.0} %", 100.0 * share(scheme)))
        ),
        Verdict::of(share(RailsScheme::RAILS) >= CLOSE, "flows of RailS do not end together"),
    ));
}

fn sparse(results: &Results, study: &mut Study) {
    let sooner =
        Load::SPARSE.map(|(_, idle)| results.sooner(&RailsScheme::OTHERS, Load::sparse(idle)));
    let times = 1.0 / (1.0 - sooner[0][0] / 100.0);
    study.claims.push(claim(
        "fig08b, fig09b",
        "at a sparsity of 0.6 the total improves by more than 1.5 times",
        format!("{times:.2} times at least"),
        Verdict::of(times > SPARSEST_SOONER, causes::idle_receivers()),
    ));
    let others = range(sooner[1..].iter().flatten().copied());
    study.claims.push(claim(
        "fig08c-e, fig09c-e",
        "at the other sparsities the total improves by 17 to 78 %",
        format!("{:.1} to {:.1} % less time", others[0], others[1]),
        Verdict::of(is_within(others, SOONER), causes::idle_receivers()),
    ));
    study.claims.push(tails(results));
    study.claims.push(short_flows(results));
    let lost = behind(results);
    study.claims.push(claim(
        "fig09b-e",
        "RailS has the best mean and every best percentile",
        match lost.is_empty() {
            true => "in all comparisons".to_owned(),
            false => format!("but for {}", lost.join(", ")),
        },
        Verdict::of(
            lost.is_empty(),
            "all flows of RailS end at about the same time, as figure 9a has them, so that its \
                mean is close to its total; \
             other schemes complete flows of idle interfaces early",
        ),
    ));
}

/// Judges how far apart RailS' tail completion times are, by sparsity.
fn tails(results: &Results) -> Claim {
    let spread = Load::SPARSE.map(|(sparsity, idle)| {
        let load = Load::sparse(idle);
        let at = |of: fn(&RailsOutcome) -> f64| results.mean(RailsScheme::RAILS, load, of);
        (sparsity, at(|run| run.percentile_us(99.0)) / at(|run| run.percentile_us(80.0)) - 1.0)
    });
    let text = spread.map(|(sparsity, apart)| format!("{sparsity}: {:.1} %", 100.0 * apart));
    claim(
        "fig09b-e",
        "RailS' tail completion times are close at low sparsity, and further apart with more",
        format!("from the 80th to the 99th percentile, by sparsity: {}", text.join(", ")),
        Verdict::of(
            spread[3].1 < 0.1 && spread.windows(2).all(|two| two[0].1 >= two[1].1),
            "they do not widen from each sparsity to the next",
        ),
    )
}

/// Judges short flows against those of other schemes, by sparsity.
fn short_flows(results: &Results) -> Claim {
    let ratio = Load::SPARSE.map(|(sparsity, idle)| {
        let load = Load::sparse(idle);
        let early = |scheme| results.mean(scheme, load, |run| run.percentile_us(10.0));
        let others = range(RailsScheme::OTHERS.iter().map(|other| early(*other)));
        (sparsity, early(RailsScheme::RAILS) / others[0])
    });
    let text = ratio.map(|(sparsity, ratio)| format!("{sparsity}: {ratio:.2}"));
    let apart = |at: usize| (ratio[at].1 - 1.0).abs();
    claim(
        "fig08b-e",
        "with more sparsity RailS' short flows come closer to other schemes', and its longest \
            still complete first",
        format!(
            "the first 10 % of the flows, over the best other scheme's, by sparsity: {}",
            text.join(", ")
        ),
        Verdict::of(
            apart(0) < apart(3)
                && Load::SPARSE.iter().all(|(_, idle)| {
                    results.sooner(&RailsScheme::OTHERS, Load::sparse(*idle))[0] > 0.0
                }),
            "the more receivers are idle, the sooner RailS' first flows end, since it has all \
                interfaces for those that are not",
        ),
    )
}

/// Lists the quantities in which another scheme is better than RailS.
fn behind(results: &Results) -> Vec<String> {
    let mut lost = Vec::new();
    for (sparsity, idle) in Load::SPARSE {
        let load = Load::sparse(idle);
        for (name, of) in QUANTITIES {
            let ours = results.mean(RailsScheme::RAILS, load, of);
            let better =
                RailsScheme::OTHERS.iter().filter(|other| results.mean(**other, load, of) < ours);
            lost.extend(better.map(|other| format!("the {name} of {} at {sparsity}", other.name)));
        }
    }
    lost
}
