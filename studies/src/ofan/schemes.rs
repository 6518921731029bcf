//! Figure 1: the leading contenders without failures.

use super::collective::Collective::{self, AllToAll, Permutation};
use super::scheme::{CONTENDERS, OfanScheme, SPRAYING};
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Spread, Study, Verdict};

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let [all, one] = Collective::BOTH.map(|collective| sweep(effort, collective));
    for (sweep, collective) in [(&all, AllToAll), (&one, Permutation)] {
        study.figures.push(figure(sweep, collective));
    }
    study.claims.extend(claims(&all, &one));
    study.choices.push(
        "Fig. 1: the all-to-all is of 1 MiB per pair, which gives the 1.3 ms and 220 round trips \
            that the \
         text states; it starts rotated (host i with i + 1, then i + 2, ..). 1 run."
            .into(),
    );
}

fn sweep(effort: &Effort, collective: Collective) -> Sweep<Collective> {
    let seeds = effort.seeds(if collective == AllToAll { 1 } else { u32::MAX });
    let what = format!("Fig. 1 {}", collective.letter());
    Sweep::run(&what, &CONTENDERS, &[collective], seeds, |scheme, collective, seed| {
        let setup = collective.setup(effort, scheme, seed);
        match (collective, effort.quick) {
            (AllToAll, false) => setup.all_to_all(1 << 20),
            _ => setup,
        }
    })
}

fn figure(sweep: &Sweep<Collective>, collective: Collective) -> Figure {
    Figure {
        id: format!("fig01{}", collective.letter()),
        title: format!("Completion time of the {}, no failures", collective.name()),
        x: Axis::linear(""),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(|collective| collective.name().into(), OfanOutcome::increase),
    }
}

fn claim(says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: "fig. 1".into(), says: says.into(), measured, verdict }
}

fn claims(all: &Sweep<Collective>, one: &Sweep<Collective>) -> Vec<Claim> {
    let of =
        |scheme: OfanScheme| (all.increase(scheme, AllToAll), one.increase(scheme, Permutation));
    let (sprayed_all, sprayed_one): (Vec<f64>, Vec<f64>) = SPRAYING.map(of).into_iter().unzip();
    let coarse = [OfanScheme::Flow, OfanScheme::Subflow, OfanScheme::HostFlowletAr];
    let (coarse_all, coarse_one): (Vec<f64>, Vec<f64>) = coarse.map(of).into_iter().unzip();
    let marks = all.spread(OfanScheme::HostPktAr, AllToAll, |outcome| outcome.marks).mean;
    let mut claims = spraying(
        marks,
        [&sprayed_all, &sprayed_one].map(|of| Spread::of(of)),
        [&coarse_all, &coarse_one].map(|of| Spread::of(of).min),
    );
    claims.extend(flowlets(of(OfanScheme::HostFlowletAr), of(OfanScheme::Subflow).1));
    claims.extend(collectives(&of));
    claims.push(least_times());
    claims
}

/// Judges the two collectives against each other (section 5.1).
fn collectives(of: &dyn Fn(OfanScheme) -> (f64, f64)) -> [Claim; 2] {
    let (flow, subflow) = (of(OfanScheme::Flow), of(OfanScheme::Subflow));
    let text = |scheme: &OfanScheme| {
        let (all, one) = of(*scheme);
        format!("{} {all:.1} and {one:.1} %", scheme.name())
    };
    let listed: Vec<String> = SPRAYING.iter().map(text).collect();
    [
        claim(
            "subflows help more in the permutation than in all-to-all, which has many flows",
            format!(
                "they take off {:.0} points in all-to-all, {:.0} in the permutation",
                flow.0 - subflow.0,
                flow.1 - subflow.1
            ),
            Verdict::of(flow.1 - subflow.1 > flow.0 - subflow.0, "they help more in all-to-all"),
        ),
        claim(
            "all ways of spraying have a larger overhead in the permutation than in all-to-all",
            listed.join(", "),
            Verdict::of(
                SPRAYING.iter().all(|scheme| of(*scheme).0 < of(*scheme).1),
                "one has a larger one in all-to-all",
            ),
        ),
    ]
}

/// Judges the least completion times (sections 5 and 5.2).
fn least_times() -> Claim {
    let setup = OfanSetup::new(OfanScheme::Ofan, 1);
    let trip = setup.round_trip().as_micros_f64();
    let [one, all] =
        [setup.clone(), setup.all_to_all(1 << 20)].map(|setup| setup.least_time().as_micros_f64());
    claim(
        "the least time is about 1.3 ms, 220 round trips, in all-to-all, and 2 to 3 in the \
            permutation",
        format!(
            "{:.2} ms, {:.0} round trips of {trip:.2} us; {one:.2} us, {:.1} round trips",
            all / 1e3,
            all / trip,
            one / trip
        ),
        Verdict::of(
            (1.25..1.45).contains(&(all / 1e3))
                && (210.0..230.0).contains(&(all / trip))
                && (2.0..3.0).contains(&(one / trip)),
            "the lower bounds are others",
        ),
    )
}

/// Judges all four spraying schemes against the best coarse one, in the all-to-all and in the
/// permutation. `marks`: marks of HOST PKT AR in the all-to-all.
fn spraying(marks: f64, [all, one]: [Spread; 2], [coarse_all, coarse_one]: [f64; 2]) -> Vec<Claim> {
    let Spread { min: best_one, max: worst_one, .. } = one;
    let worst_all = all.max;
    vec![
        claim(
            "spraying packets beats flows, subflows and flowlets in both collectives",
            format!(
                "all-to-all: worst spraying {worst_all:.2} %, best other {coarse_all:.1} %; \
                    permutation: \
                 {worst_one:.1} % and {coarse_one:.1} %"
            ),
            Verdict::of(
                worst_all < coarse_all && worst_one < coarse_one,
                "a coarse scheme is as good as the worst spraying one",
            ),
        ),
        claim(
            "spraying packets is within 1 % of the lower bound in all-to-all",
            format!("at most {worst_all:.2} %"),
            Verdict::of(
                worst_all <= 1.0,
                format!(
                    "HOST PKT AR is the one beyond: {marks:.0} packets are marked, and REPS \
                        leaves the labels that they \
                     had for others; it has 256 per destination here"
                ),
            ),
        ),
        claim(
            "little difference among the four ways of spraying in the permutation",
            format!("{best_one:.1} to {worst_one:.1} %"),
            Verdict::of(
                worst_one - best_one < coarse_one - worst_one,
                "they differ by more than the best coarse scheme differs from the worst of them",
            ),
        ),
    ]
}

/// Judges HOST FLOWLET AR in both collectives, and SUBFLOW in the permutation.
fn flowlets((plb_all, plb_one): (f64, f64), subflow: f64) -> [Claim; 2] {
    [
        claim(
            "HOST FLOWLET AR within 16 % of the lower bound in all-to-all",
            format!("{plb_all:.1} %"),
            Verdict::of(
                plb_all <= 16.0,
                "PLB as shipped judges by round trips and moves a busy flow after 12 congested \
                    ones; the \
                 paper's moves at most every alpha packets and does not tell alpha",
            ),
        ),
        claim(
            "HOST FLOWLET AR is worse than SUBFLOW in the permutation",
            format!("{plb_one:.0} % and {subflow:.0} %"),
            Verdict::of(plb_one > subflow, "it finds free paths within the 2 to 3 round trips"),
        ),
    ]
}
