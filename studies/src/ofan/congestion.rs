//! Figure 13: congestion control (MSwift) instead of a fixed rate.

use super::scheme::BEST;
use super::scheme::OfanScheme::{self, HostPktAr, Ofan, SwitchPktAr};
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};

/// Message sizes of the two halves of the figure.
const SHORT: u64 = 1 << 20;
const LONG: u64 = 16 << 20;
/// Threshold of MSwift's recovery, which tolerates reordering (LTCP): no late packet counts as lost
/// here.
const TOLERANT: u32 = 400;
/// The threshold of figure 12.
const SACK: u32 = 32;
/// Points by which the increases of short messages may differ to count as equal.
const ALIKE: f64 = 3.0;
/// Points by which the baselines are slower with long messages: "some 10 %".
const PAPERS_LOSS: std::ops::RangeInclusive<f64> = 5.0..=15.0;
/// The least factor for "an order of magnitude".
const MAGNITUDE: f64 = 5.0;
/// The claims about the longer messages.
const LONG_CLAIMS: [&str; 2] = [
    "16 MiB: HOST PKT AR and SWITCH PKT AR take some 10 % longer",
    "16 MiB: OFAN need not be slowed down, its increase is an order of magnitude smaller",
];
const BASELINES: [OfanScheme; 2] = [HostPktAr, SwitchPktAr];

/// The congestion control of the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OfanControl {
    FixedRate,
    /// Appendix H: 6.25 us plus the time of 113 KB of queue at 800 Gb/s, 7.38 us in all, is Swift's
    /// base target, to which each hop adds. The first window is that of 7.38 us.
    MSwift,
    /// The 7.38 us are the whole target, including six hops.
    LowTarget,
    /// Late packets count as lost and cut the window.
    FalseLosses,
}

use OfanControl::*;

impl OfanControl {
    const ALL: [OfanControl; 4] = [FixedRate, MSwift, LowTarget, FalseLosses];

    pub(super) fn name(self) -> &'static str {
        match self {
            FixedRate => "fixed rate",
            MSwift => "MSwift",
            LowTarget => "7.38 us in all",
            FalseLosses => "SACK of 32",
        }
    }

    fn cc(self) -> Option<&'static str> {
        match self {
            FixedRate => None,
            MSwift | FalseLosses => Some("mswift:start=738000,base=7380ns,hops=6"),
            LowTarget => Some("mswift:start=738000,base=3852ns,hops=6"),
        }
    }

    fn sack(self) -> Option<u32> {
        match self {
            FixedRate => None,
            MSwift | LowTarget => Some(TOLERANT),
            FalseLosses => Some(SACK),
        }
    }

    /// Returns a run with this control.
    pub(super) fn of(self, usual: OfanSetup) -> OfanSetup {
        OfanSetup { cc: self.cc(), sack: self.sack(), ..usual }
    }
}

/// A message size and a control.
type SizeAndControl = (u64, OfanControl);

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let short = [FixedRate, MSwift].map(|control| (SHORT, control));
    let long: &[OfanControl] = if effort.quick { &[] } else { &OfanControl::ALL };
    let places: Vec<SizeAndControl> =
        short.into_iter().chain(long.iter().map(|control| (LONG, *control))).collect();
    let make = |scheme, (bytes, control): SizeAndControl, seed| {
        control.of(OfanSetup { bytes, ..OfanSetup::new(scheme, seed) })
    };
    let sweep = Sweep::run("Fig. 13", &BEST, &places, effort.seeds(3), make);
    study.figures.push(Figure {
        id: "fig13".into(),
        title: "Permutation under congestion control".into(),
        x: Axis::linear(""),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(
            |(bytes, control)| format!("{} MiB, {}", bytes >> 20, control.name()),
            OfanOutcome::increase,
        ),
    });
    study.claims.push(short_messages(&sweep));
    if effort.quick {
        study.claims.extend(LONG_CLAIMS.map(|says| Claim::left_out("fig. 13", says)));
    } else {
        study.claims.extend(long_messages(&sweep));
        study.choices.push(other_readings(&sweep));
    }
}

fn claim(says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: "fig. 13".into(), says: says.into(), measured, verdict }
}

/// Returns the points that a control adds to the increase.
fn loss(sweep: &Sweep<SizeAndControl>, scheme: OfanScheme, bytes: u64) -> f64 {
    sweep.increase(scheme, (bytes, MSwift)) - sweep.increase(scheme, (bytes, FixedRate))
}

/// Formats the increases at a fixed rate and under control.
fn listed(sweep: &Sweep<SizeAndControl>, bytes: u64) -> String {
    let texts = BEST.map(|scheme| {
        let [fixed, controlled] =
            [FixedRate, MSwift].map(|control| sweep.increase(scheme, (bytes, control)));
        format!("{} {fixed:.2} and {controlled:.2} %", scheme.name())
    });
    texts.join(", ")
}

fn short_messages(sweep: &Sweep<SizeAndControl>) -> Claim {
    claim(
        "1 MiB: much the same as at a fixed rate, since windows begin at the line rate",
        listed(sweep, SHORT),
        Verdict::of(
            BEST.iter().all(|scheme| loss(sweep, *scheme, SHORT).abs() < ALIKE),
            format!("they differ by more than {ALIKE} points"),
        ),
    )
}

fn long_messages(sweep: &Sweep<SizeAndControl>) -> [Claim; 2] {
    let of = |scheme| sweep.increase(scheme, (LONG, MSwift));
    let lost = BASELINES.map(|scheme| loss(sweep, scheme, LONG));
    let (ofan, best) = (of(Ofan), of(HostPktAr).min(of(SwitchPktAr)));
    [
        claim(
            LONG_CLAIMS[0],
            listed(sweep, LONG),
            Verdict::of(
                lost.iter().all(|points| PAPERS_LOSS.contains(points)),
                format!(
                    "HOST PKT AR loses {:.1} points, SWITCH PKT AR {:.1}. Target and tolerance to \
                        reordering decide, and the paper \
                     gives them in words only (see the choices)",
                    lost[0], lost[1]
                ),
            ),
        ),
        claim(
            LONG_CLAIMS[1],
            format!("OFAN {ofan:.2} %, the better of them {best:.2} %: {:.0} times", best / ofan),
            Verdict::of(ofan * MAGNITUDE <= best, format!("less than {MAGNITUDE} times")),
        ),
    ]
}

/// Describes the dependence of the figure on other readings of the paper.
fn other_readings(sweep: &Sweep<SizeAndControl>) -> String {
    let of = |control| {
        let texts = BEST.map(|scheme| {
            format!("{} {:.1} %", scheme.name(), sweep.increase(scheme, (LONG, control)))
        });
        texts.join(", ")
    };
    format!(
        "Fig. 13: appendix H is read as a base target of 7.38 us to which each of six hops adds \
            its part, whatever a flow's own \
         hops; windows begin at 738 KB, the median is of nine round trips, nothing that is late \
         is taken for lost. At most 3 \
         runs. With 7.38 us for base and hops together: {}. With a SACK threshold of {SACK} \
         packets, whose false losses cut the \
         window: {}.",
        of(LowTarget),
        of(FalseLosses)
    )
}
