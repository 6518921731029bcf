//! Figure 7: bus bandwidth under uniform and sparse loads.

use super::causes;
use super::load::Load;
use super::outcome::RailsOutcome;
use super::results::{Results, bars, claim, is_near, listed, range};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::{Study, Verdict};

/// Bus bandwidth over ECMP's in the paper's text. PLB's is 20 % below RailS'.
const PAPERS: [(RailsScheme, f64); 3] =
    [(RailsScheme::RAILS, 1.29), (RailsScheme::REPS, 1.34), (RailsScheme::MIN_RTT, 1.24)];
const PLB_BELOW_RAILS: f64 = 0.8;
const MOST_SPARSE: f64 = 2.8;
const OTHERWISE_MORE: [f64; 2] = [20.0, 78.0];

pub(super) fn setups(scale: &RailsScale) -> Vec<RailsSetup> {
    loads().into_iter().flat_map(|(_, load)| scale.compared(load)).collect()
}

/// Returns the uniform load, then the sparse ones.
pub(super) fn loads() -> Vec<(&'static str, Load)> {
    let names = ["sparse 0.6", "sparse 0.4", "sparse 0.2", "sparse 0"];
    let sparse = names.into_iter().zip(Load::SPARSE);
    let sparse = sparse.map(|(name, (_, idle))| (name, Load::sparse(idle)));
    std::iter::once(("uniform", Load::UNIFORM)).chain(sparse).collect()
}

pub(super) fn add(results: &Results, study: &mut Study) {
    let base = (RailsScheme::ECMP, RailsOutcome::bus_gbps as fn(&RailsOutcome) -> f64);
    study.figures.push(bars(
        ["fig07", "Bus bandwidth under uniform and sparse loads", "bus bandwidth over ECMP's"],
        &loads(),
        &RailsScheme::COMPARED,
        |scheme, load| results.over((scheme, RailsOutcome::bus_gbps), base, load),
    ));
    uniform(results, study);
    sparse(results, study);
}

fn uniform(results: &Results, study: &mut Study) {
    let times = |scheme, base| results.times(scheme, base, Load::UNIFORM);
    for (scheme, papers) in PAPERS {
        let measured = times(scheme, RailsScheme::ECMP);
        study.claims.push(claim(
            "fig07a",
            &format!("{}'s bus bandwidth is {papers} times ECMP's", scheme.name),
            format!("{measured:.2} times"),
            Verdict::of(is_near(measured, papers), causes::collisions()),
        ));
    }
    let below = times(RailsScheme::PLB, RailsScheme::RAILS);
    study.claims.push(claim(
        "fig07a",
        "PLB's is 20 % below RailS'",
        format!("{:.1} % below", 100.0 * (1.0 - below)),
        Verdict::of(is_near(below, PLB_BELOW_RAILS), causes::collisions()),
    ));
    let over_ecmp = |scheme| times(scheme, RailsScheme::ECMP);
    let order = [
        RailsScheme::REPS,
        RailsScheme::RAILS,
        RailsScheme::MIN_RTT,
        RailsScheme::PLB,
        RailsScheme::ECMP,
    ];
    study.claims.push(claim(
        "fig07a",
        "in this order: REPS, RailS, MinRTT, PLB, ECMP",
        listed(&order, |scheme| format!("{:.2}", over_ecmp(scheme))),
        Verdict::of(
            order.map(over_ecmp).is_sorted_by(|a, b| a >= b),
            "RailS has no collisions at all, and is at its bound: no scheme can be above it",
        ),
    ));
}

fn sparse(results: &Results, study: &mut Study) {
    let more = |idle| {
        let load = Load::sparse(idle);
        range(
            RailsScheme::OTHERS.iter().map(|other| results.times(RailsScheme::RAILS, *other, load)),
        )
    };
    let all = Load::SPARSE.map(|(name, idle)| (name, more(idle)));
    let texts = all.map(|(name, [least, most])| format!("{name}: {least:.2} to {most:.2}"));
    let grows = all.is_sorted_by(|(_, a), (_, b)| a[0] >= b[0]);
    study.claims.push(claim(
        "fig07b-e",
        "RailS has the highest bus bandwidth at every sparsity, the sparser the more so",
        format!("bus bandwidth over the others', by sparsity: {}", texts.join(", ")),
        Verdict::of(
            grows && all.iter().all(|(_, [least, _])| *least > 1.0),
            causes::idle_receivers(),
        ),
    ));
    let [least, most] = all[0].1;
    study.claims.push(claim(
        "fig07b",
        "at a sparsity of 0.6 it has 2.8 times that of the others",
        format!("{least:.2} to {most:.2} times"),
        Verdict::of(
            is_near(least, MOST_SPARSE) && is_near(most, MOST_SPARSE),
            causes::idle_receivers(),
        ),
    ));
    let [least, most] = range(all[1..].iter().flat_map(|(_, [least, most])| [*least, *most]))
        .map(|times| 100.0 * (times - 1.0));
    study.claims.push(claim(
        "fig07c-e",
        "at the other sparsities it has 20 to 78 % more",
        format!("{least:.0} to {most:.0} % more"),
        Verdict::of(
            super::results::is_within([least, most], OTHERWISE_MORE),
            causes::idle_receivers(),
        ),
    ));
}
