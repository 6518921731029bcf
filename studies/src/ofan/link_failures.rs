//! Figures 3 to 5: links fail at random, and routing learns of it never, later, or before the
//! start.

use super::collective::Collective::{self, AllToAll, Permutation};
use super::failures::Failures;
use super::scheme::OfanScheme::{self, HostPktAr, Ofan, SwitchPktAr};
use super::scheme::SPRAYING;
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};

/// The failure rate of the paper.
const RATE: f64 = 0.01;
/// Points by which increases may differ to count as the same.
const ALIKE: f64 = 5.0;

/// Adds figure 3: G is infinite.
pub(super) fn without_convergence(effort: &Effort, study: &mut Study) {
    for collective in Collective::BOTH {
        silent(effort, collective, study);
    }
}

/// Adds figure 4: G from 0 up.
pub(super) fn late_convergence(effort: &Effort, study: &mut Study) {
    for collective in Collective::BOTH {
        late(effort, collective, study);
    }
}

/// Adds figure 5: G is 0.
pub(super) fn converged(effort: &Effort, study: &mut Study) {
    for collective in Collective::BOTH {
        known(effort, collective, study);
    }
    study.choices.push(
        "Figs. 3 to 5: failures are drawn anew for every seed, the same for all schemes. Hosts \
            send at \
         rho_max (appendix A); the lower bound is then the longer of the paper's and what that \
         rate takes. \
         The all-to-all is of 256 KiB per pair (55 round trips without failures; the paper's take \
         220), \
         so that REPS explores for all of a flow's first 64 packets; at most 2 runs, 1 in Fig. 5."
            .into(),
    );
}

/// Returns the seeds. An all-to-all takes long, so it has fewer runs.
fn seeds(effort: &Effort, collective: Collective) -> impl Iterator<Item = u64> {
    effort.seeds(if collective == AllToAll { 2 } else { u32::MAX })
}

fn setup(
    effort: &Effort,
    of: Collective,
    scheme: OfanScheme,
    failures: Failures,
    seed: u64,
) -> OfanSetup {
    OfanSetup { failures, ..of.setup(effort, scheme, seed) }
}

fn id(number: u32, collective: Collective) -> String {
    format!("fig{number:02}{}", collective.letter())
}

fn claim(number: u32, says: String, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: format!("fig. {number}"), says, measured, verdict }
}

fn silent(effort: &Effort, collective: Collective, study: &mut Study) {
    let failures = Failures { rate: RATE, converge: None };
    let make = |scheme, of, seed| setup(effort, of, scheme, failures, seed);
    let what = format!("Fig. 3 {}", collective.letter());
    let sweep = Sweep::run(&what, &SPRAYING, &[collective], seeds(effort, collective), make);
    study.figures.push(Figure {
        id: id(3, collective),
        title: format!("1 % of the links fail silently for good, {}", collective.name()),
        x: Axis::linear(""),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(|collective| collective.name().into(), OfanOutcome::increase),
    });
    let of = |scheme| sweep.increase(scheme, collective);
    let reps = of(HostPktAr);
    let others = SPRAYING.iter().filter(|scheme| **scheme != HostPktAr);
    let best = others.map(|scheme| of(*scheme)).fold(f64::INFINITY, f64::min);
    study.claims.push(claim(
        3,
        format!("HOST PKT AR is the clear winner in the {}", collective.name()),
        format!("{reps:.1} %, the best other {best:.1} %"),
        Verdict::of(
            reps < best,
            "losses cost nothing but their time on the wire here, so that avoiding them pays less",
        ),
    ));
    if collective == Permutation {
        study.claims.push(claim(
            3,
            "even the best is about 20 % over the baseline in the permutation".into(),
            format!("{:.1} %", reps.min(best)),
            Verdict::of(
                (10.0..30.0).contains(&reps.min(best)),
                "a lost packet is made up for at once here, and the paper's sender waits for up \
                    to a round \
                 trip of the 2 to 3",
            ),
        ));
    }
}

fn late(effort: &Effort, collective: Collective, study: &mut Study) {
    let late = LateConvergence::run(effort, collective);
    study.figures.push(late.figure());
    study.claims.push(late.alike_at_first());
    study.claims.push(match effort.quick {
        true => Claim::left_out("fig. 4", late.in_the_end()),
        false => late.worse_in_the_end(),
    });
}

/// The runs of figure 4.
struct LateConvergence {
    collective: Collective,
    /// The values of G, in round trips.
    trips: &'static [f64],
    sweep: Sweep<f64>,
    /// The runs in which routing never learns.
    never: Sweep<f64>,
}

impl LateConvergence {
    fn run(effort: &Effort, collective: Collective) -> LateConvergence {
        let trips: &[f64] = match (effort.quick, collective) {
            (true, _) => &[0.0, 2.0],
            (false, AllToAll) => &[0.0, 2.0, 5.0, 10.0, 40.0],
            (false, Permutation) => &[0.0, 0.5, 1.0, 1.5, 2.0, 3.0],
        };
        let make = |scheme, trips: f64, seed| {
            let converge = trips.is_finite().then_some(trips);
            setup(effort, collective, scheme, Failures { rate: RATE, converge }, seed)
        };
        let what = format!("Fig. 4 {}", collective.letter());
        let run = |schemes: &[OfanScheme], trips: &[f64]| {
            Sweep::run(&what, schemes, trips, seeds(effort, collective), make)
        };
        let sweep = run(&[SwitchPktAr, HostPktAr], trips);
        let never = run(&[HostPktAr], &[f64::INFINITY]);
        LateConvergence { collective, trips, sweep, never }
    }

    fn last(&self) -> f64 {
        self.trips[self.trips.len() - 1]
    }

    fn figure(&self) -> Figure {
        let mut series = self.sweep.lines(|trips| trips, OfanOutcome::increase);
        let mut flat = self.never.lines(|_| self.trips[0], OfanOutcome::increase).remove(0);
        flat.name = "HOST PKT AR, G infinite".into();
        let end = crate::Point { x: self.last(), ..flat.points[0].clone() };
        flat.points.push(end);
        series.push(flat);
        Figure {
            id: id(4, self.collective),
            title: format!(
                "Routing learns of 1 % failed links after G, {}",
                self.collective.name()
            ),
            x: Axis::linear("G [round trips of 6.25 us]"),
            y: Axis::linear("CCT beyond the lower bound [%]"),
            kind: Kind::Lines,
            series,
        }
    }

    fn alike_at_first(&self) -> Claim {
        let limit = if self.collective == AllToAll { 10.0 } else { 2.0 };
        let apart = |trips: f64| {
            let of = |scheme| self.sweep.increase(scheme, trips);
            (of(SwitchPktAr) - of(HostPktAr)).abs()
        };
        let early = self.trips.iter().filter(|trips| **trips < limit);
        let most = early.map(|trips| apart(*trips)).fold(0.0, f64::max);
        claim(
            4,
            format!(
                "{}: SWITCH PKT AR is as good as HOST PKT AR for G < {limit} RTT",
                self.collective.name()
            ),
            format!("they differ by at most {most:.1} points of CCT"),
            Verdict::of(most < ALIKE, format!("beyond {ALIKE} points")),
        )
    }

    fn in_the_end(&self) -> String {
        format!(
            "{}: as G grows SWITCH PKT AR becomes worse than HOST PKT AR that is never helped by \
                routing",
            self.collective.name()
        )
    }

    fn worse_in_the_end(&self) -> Claim {
        let last = self.last();
        let late = self.sweep.increase(SwitchPktAr, last);
        let reps = self.never.increase(HostPktAr, f64::INFINITY);
        claim(
            4,
            self.in_the_end(),
            format!("{late:.1} % at G = {last} RTT against {reps:.1} %"),
            Verdict::of(
                late > reps,
                "the run is not much longer than this G, and REPS explores for most of it, as \
                    messages are a \
                 quarter of the paper's; with G infinite it is as the paper says (Fig. 3)",
            ),
        )
    }
}

fn known(effort: &Effort, collective: Collective, study: &mut Study) {
    let rates: &[f64] = match (effort.quick, collective) {
        (true, _) => &[0.0, 0.04],
        (false, AllToAll) => &[0.0, 0.02, 0.08],
        (false, Permutation) => &[0.0, 0.01, 0.02, 0.04, 0.08],
    };
    let schemes: Vec<OfanScheme> = SPRAYING.into_iter().chain([Ofan]).collect();
    let make = |scheme, rate, seed| {
        setup(effort, collective, scheme, Failures { rate, converge: Some(0.0) }, seed)
    };
    let what = format!("Fig. 5 {}", collective.letter());
    let most = if collective == AllToAll { 1 } else { 5 };
    let sweep = Sweep::run(&what, &schemes, rates, effort.seeds(most), make);
    study.figures.push(Figure {
        id: id(5, collective),
        title: format!("Routing knows of failed links from the start, {}", collective.name()),
        x: Axis::linear("links failed [%]"),
        y: Axis::linear("CCT beyond the lower bound without failures [%]"),
        kind: Kind::Lines,
        series: sweep.lines(|rate| 100.0 * rate, OfanOutcome::increase_over_whole),
    });
    let gap = |rate: f64| {
        let of = |scheme: &OfanScheme| sweep.increase(*scheme, rate);
        let (least, most) =
            SPRAYING.iter().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| {
                (least.min(x), most.max(x))
            });
        most - least
    };
    let (first, last) = (rates[0], rates[rates.len() - 1]);
    let (before, after) = (gap(first), gap(last));
    study.claims.push(claim(
        5,
        format!(
            "{}: with G = 0 the gap between the schemes does not grow with failures",
            collective.name()
        ),
        format!("{before:.1} points without failures, {after:.1} with {:.0} %", 100.0 * last),
        Verdict::of(after < before + ALIKE, format!("it grows by more than {ALIKE} points")),
    ));
}
