//! Figure 12: losses are detected by a threshold (SACK) instead of ideal recovery.

use super::collective::Collective;
use super::scheme::OfanScheme::{self, HostDr, Ofan};
use super::scheme::SPRAYING;
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};

pub(super) fn run(effort: &Effort, study: &mut Study) {
    for collective in Collective::BOTH {
        one(effort, collective, study);
    }
    study.choices.push(
        "Fig. 12: the shipped SACK recovery: its threshold doubles when a packet declared lost \
            arrives after \
         all. Time-outs begin at 80 us. All-to-all of 256 KiB per pair, 1 run."
            .into(),
    );
}

fn one(effort: &Effort, collective: Collective, study: &mut Study) {
    let (threshold, most) = match collective {
        Collective::AllToAll => (6, 1),
        Collective::Permutation => (32, u32::MAX),
    };
    let schemes: Vec<OfanScheme> = SPRAYING.into_iter().chain([HostDr, Ofan]).collect();
    let make = |scheme, of: Collective, seed| OfanSetup {
        sack: Some(threshold),
        ..of.setup(effort, scheme, seed)
    };
    let what = format!("Fig. 12 {}", collective.letter());
    let sweep = Sweep::run(&what, &schemes, &[collective], effort.seeds(most), make);
    study.figures.push(Figure {
        id: format!("fig12{}", collective.letter()),
        title: format!("SACK with a threshold of {threshold} packets, {}", collective.name()),
        x: Axis::linear(""),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(|collective| collective.name().into(), OfanOutcome::increase),
    });
    let of = |scheme: &OfanScheme| sweep.increase(*scheme, collective);
    let ofan = of(&Ofan);
    let least = SPRAYING.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = SPRAYING.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let resent = sweep.spread(Ofan, collective, |outcome| 100.0 * outcome.resent).mean;
    let measured =
        format!("OFAN {ofan:.2} % ({resent:.2} % resent), the others {least:.2} to {most:.2} %");
    let claim = |says: &str, verdict| Claim {
        figure: "fig. 12".into(),
        says: format!("{}: with SACK {says}", collective.name()),
        measured: measured.clone(),
        verdict,
    };
    study.claims.extend([
        claim("OFAN is the best", Verdict::of(ofan < least, "another way of spraying is as good")),
        claim(
            "the other ways of spraying are similar",
            Verdict::of(
                most - least < least - ofan,
                "they differ from each other by more than the best of them differs from OFAN",
            ),
        ),
    ]);
}
