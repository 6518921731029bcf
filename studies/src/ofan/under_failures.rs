//! Section 5.2, figures 3 to 5, and section 6.2: claims about failures beside those of the figures.

use super::failures::Failures;
use super::scheme::OfanScheme::{
    self, Flow, HostDr, HostFlowletAr, HostPkt, HostPktAr, Ofan, Subflow, SwitchPkt, SwitchPktAr,
};
use super::scheme::SPRAYING;
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Claim, Effort, Study, Verdict};

const RATE: f64 = 0.01;
/// A time of convergence after which the short messages of figure 4 suffer, in round trips.
const LATE: f64 = 3.0;
const COARSE: [OfanScheme; 3] = [Flow, Subflow, HostFlowletAr];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let converged = Converged::run(effort);
    study.claims.push(converged.coarse_schemes());
    study.claims.push(converged.more_failures());
    study.claims.push(converged.rotation_keeps_its_lead());
    study.claims.push(switches_see_little(effort));
    study.claims.push(large_messages(effort));
}

/// Returns a permutation over 128 nodes, over 16 with `quick`.
fn nodes(effort: &Effort, scheme: OfanScheme, seed: u64) -> OfanSetup {
    let usual = OfanSetup::new(scheme, seed);
    if effort.quick { OfanSetup { k: 4, ..usual } } else { usual }
}

fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// A permutation of 1 MiB whose routing knows of the failures from the start, by their rate.
struct Converged {
    rates: &'static [f64],
    sweep: Sweep<f64>,
}

impl Converged {
    fn run(effort: &Effort) -> Converged {
        let rates: &[f64] = if effort.quick { &[0.0, 0.04] } else { &[0.0, 0.01, 0.04, 0.08] };
        let schemes: Vec<OfanScheme> =
            COARSE.into_iter().chain(SPRAYING).chain([HostDr, Ofan]).collect();
        let make = |scheme, rate, seed| OfanSetup {
            failures: Failures { rate, converge: Some(0.0) },
            ..nodes(effort, scheme, seed)
        };
        let sweep = Sweep::run("Section 5.2", &schemes, rates, effort.seeds(5), make);
        Converged { rates, sweep }
    }

    fn last(&self) -> f64 {
        self.rates[self.rates.len() - 1]
    }

    fn whole(&self, scheme: OfanScheme, rate: f64) -> f64 {
        self.sweep.spread(scheme, rate, OfanOutcome::increase_over_whole).mean
    }

    fn coarse_schemes(&self) -> Claim {
        let gap = |rate: f64| {
            let of = |schemes: &[OfanScheme]| {
                schemes.iter().map(|scheme| self.whole(*scheme, rate)).collect::<Vec<_>>()
            };
            let coarse = of(&COARSE).into_iter().fold(f64::INFINITY, f64::min);
            coarse - of(&SPRAYING).into_iter().fold(f64::NEG_INFINITY, f64::max)
        };
        let listed = self.rates.iter().map(|rate| {
            format!("{:.0} points with {:.0} % of the links failed", gap(*rate), 100.0 * rate)
        });
        let failed = &self.rates[1..];
        claim(
            "section 5.2",
            "the gap between spraying packets and coarser granularities only increases under \
                failures",
            format!(
                "from the worst spraying to the best coarse scheme {}",
                listed.collect::<Vec<_>>().join(", ")
            ),
            Verdict::of(
                failed.iter().all(|rate| gap(*rate) > gap(self.rates[0])),
                "at some failure rate it is smaller; hosts send at the rate that the failures \
                    leave, at which flows collide less. Where routing never learns, a flow on a \
                    dead path does not end at all",
            ),
        )
    }

    fn more_failures(&self) -> Claim {
        let grows = |scheme: &OfanScheme| {
            let increases = self.rates.iter().map(|rate| self.whole(*scheme, *rate));
            increases.collect::<Vec<_>>().windows(2).all(|two| two[1] > two[0])
        };
        let listed = SPRAYING.iter().map(|scheme| {
            let each = self.rates.iter().map(|rate| format!("{:.0}", self.whole(*scheme, *rate)));
            format!("{} {} %", scheme.name(), each.collect::<Vec<_>>().join(", "))
        });
        claim(
            "fig. 5",
            "with G = 0 performance degrades as the failure rate increases",
            listed.collect::<Vec<_>>().join("; "),
            Verdict::of(SPRAYING.iter().all(grows), "a scheme is faster at a higher rate"),
        )
    }

    fn rotation_keeps_its_lead(&self) -> Claim {
        let of = |scheme: OfanScheme, rate: f64| self.sweep.increase(scheme, rate);
        let best =
            |rate| SPRAYING.iter().map(|scheme| of(*scheme, rate)).fold(f64::INFINITY, f64::min);
        let failed = &self.rates[1..];
        let listed = failed.iter().map(|rate| {
            let [dr, ofan] = [HostDr, Ofan].map(|scheme| of(scheme, *rate));
            format!(
                "{:.0} % of the links failed: HOST DR {dr:.2} %, OFAN {ofan:.2} %, the best other \
                    {:.2} %",
                100.0 * rate,
                best(*rate)
            )
        });
        claim(
            "section 6.2",
            "OFAN and HOST DR keep their advantage under failures",
            listed.collect::<Vec<_>>().join("; "),
            Verdict::of(
                failed.iter().all(|rate| of(HostDr, *rate).max(of(Ofan, *rate)) < best(*rate)),
                format!(
                    "with up to {:.0} % of the links failed another scheme is as good as one of \
                        the two: unequal routes cannot be filled evenly by turns",
                    100.0 * self.last()
                ),
            ),
        )
    }
}

/// Judges the reason of figure 3: adaptive switches gain little over switches that are not.
fn switches_see_little(effort: &Effort) -> Claim {
    let failures = Failures { rate: RATE, converge: None };
    let make = |scheme, (), seed| OfanSetup { failures, ..nodes(effort, scheme, seed) };
    let sweep = Sweep::run("Fig. 3", &SPRAYING, &[()], effort.seeds(10), make);
    let of = |scheme| sweep.increase(scheme, ());
    let oblivious = of(HostPkt).min(of(SwitchPkt));
    let (switch, host) = (oblivious - of(SwitchPktAr), oblivious - of(HostPktAr));
    claim(
        "fig. 3",
        "SWITCH PKT AR, although adaptive, does not see the benefit that HOST PKT AR has",
        format!(
            "points below the better scheme that is not adaptive: SWITCH PKT AR {switch:.1}, HOST \
                PKT AR {host:.1}"
        ),
        Verdict::of(switch < 0.5 * host, "it gains at least half as much"),
    )
}

/// Judges whether long messages bear a late convergence.
fn large_messages(effort: &Effort) -> Claim {
    let long: u64 = if effort.quick { 4 << 20 } else { 16 << 20 };
    let places = [1 << 20, long].map(|bytes| [0.0, LATE].map(|trips| (bytes, trips))).concat();
    let make = |scheme, (bytes, trips): (u64, f64), seed| OfanSetup {
        bytes,
        failures: Failures { rate: RATE, converge: Some(trips) },
        ..nodes(effort, scheme, seed)
    };
    let sweep = Sweep::run("Fig. 4", &[SwitchPktAr], &places, effort.seeds(3), make);
    let cost = |bytes| {
        let of = |trips| sweep.increase(SwitchPktAr, (bytes, trips));
        of(LATE) - of(0.0)
    };
    claim(
        "fig. 4",
        "for large messages on a permutation the acceptable convergence time is longer",
        format!(
            "G = {LATE} round trips costs SWITCH PKT AR {:.1} points with 1 MiB, {:.1} with {} MiB",
            cost(1 << 20),
            cost(long),
            long >> 20
        ),
        Verdict::of(cost(long) < 0.5 * cost(1 << 20), "it costs at least half as much"),
    )
}
