//! Sensitivity of the ring's result to parameters that the paper does not give.

use braid_cc::{CcConfig, DcqcnConfig};
use braid_transport::LossRecovery;

use super::comparison::range;
use super::outcome::{PERCENTILES, ProOutcome, measure};
use super::setup::{Pattern, ProScheme, ProSetup, dcqcn, paper_fabric};
use crate::{Axis, Effort, Figure, Kind, Point, Series, Study, run_all};
use braid_sim::switch::Policy;
use braid_sim::time::Ps;

/// About 1.2 times the bytes of a round trip of 8.3 us.
const WINDOW: u64 = 256_000;
/// Bytes that a link drains in a microsecond.
const DRAINED: u64 = 25_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SensitivityVariant {
    AsInFig8,
    NicSr,
    Windowed,
    QueueOnly,
}

impl SensitivityVariant {
    /// The variants for any scheme.
    const GENERAL: [SensitivityVariant; 3] =
        [SensitivityVariant::AsInFig8, SensitivityVariant::NicSr, SensitivityVariant::Windowed];

    fn name(self) -> &'static str {
        match self {
            SensitivityVariant::AsInFig8 => "as in Fig. 8",
            SensitivityVariant::NicSr => "RNICs with selective repeat",
            SensitivityVariant::Windowed => "DCQCN with a window of 256 KB",
            SensitivityVariant::QueueOnly => "graded by queue only",
        }
    }

    fn setup(self, scheme: ProScheme, seed: u64) -> ProSetup {
        let usual = ProSetup::new(scheme, seed);
        match self {
            SensitivityVariant::AsInFig8 => usual,
            SensitivityVariant::NicSr => ProSetup { recovery: LossRecovery::NicSr, ..usual },
            SensitivityVariant::Windowed => {
                let cc = CcConfig::new(DcqcnConfig { window: WINDOW, ..dcqcn() });
                ProSetup { cc, ..usual }
            }
            SensitivityVariant::QueueOnly => {
                let bins = (1..8).map(|grade| grade * DRAINED).collect();
                ProSetup {
                    policy: Some(Policy::Adaptive { bins, age: Ps::from_micros(1) }),
                    ..usual
                }
            }
        }
    }
}

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let runs = SensitivityRuns::make(effort);
    study.figures.push(runs.figure());
    study.choices.push(runs.grades());
    study.choices.push(runs.selective_repeat());
}

/// The ring under every variant, by seed.
struct SensitivityRuns {
    megabytes: f64,
    outcomes: Vec<(ProScheme, SensitivityVariant, ProOutcome)>,
}

impl SensitivityRuns {
    fn make(effort: &Effort) -> SensitivityRuns {
        let bytes = if effort.quick { 200_000 } else { 4_000_000 };
        let general = ProScheme::COMPARED
            .into_iter()
            .flat_map(|scheme| SensitivityVariant::GENERAL.map(|variant| (scheme, variant)));
        let cases: Vec<(ProScheme, SensitivityVariant, u64)> = general
            .chain([(ProScheme::Adaptive, SensitivityVariant::QueueOnly)])
            .flat_map(|(scheme, variant)| effort.seeds(2).map(move |seed| (scheme, variant, seed)))
            .collect();
        let outcomes = run_all("Other choices", cases, |(scheme, variant, seed)| {
            let topology = paper_fabric();
            let workload = Pattern::Ring.workload(&topology, bytes, seed);
            let plan = variant.setup(scheme, seed).plan(&topology, workload);
            let outcome = measure(plan, false)
                .unwrap_or_else(|error| panic!("{scheme:?}, {variant:?}, seed {seed}: {error}"));
            (scheme, variant, outcome)
        });
        SensitivityRuns { megabytes: bytes as f64 / 1e6, outcomes }
    }

    fn values(
        &self,
        scheme: ProScheme,
        variant: SensitivityVariant,
        value: fn(&ProOutcome) -> f64,
    ) -> Vec<f64> {
        let here = self.outcomes.iter().filter(|(of, with, _)| (*of, *with) == (scheme, variant));
        here.map(|(_, _, outcome)| value(outcome)).collect()
    }

    fn figure(&self) -> Figure {
        let bars = |variant: SensitivityVariant| Series {
            name: variant.name().into(),
            points: (0..)
                .zip(ProScheme::COMPARED)
                .map(|(group, scheme)| {
                    let slowdowns = self.values(scheme, variant, |outcome| outcome.slowdown);
                    Point::bar(group, scheme.name(), &slowdowns)
                })
                .collect(),
        };
        Figure {
            id: "fig08c".into(),
            title: format!(
                "Completion time over the ideal under other choices, ring of {} MB",
                self.megabytes
            ),
            x: Axis::linear("scheme"),
            y: Axis::log("slowdown"),
            kind: Kind::Bars,
            series: SensitivityVariant::GENERAL.map(bars).into(),
        }
    }

    fn grades(&self) -> String {
        let p99 = |outcome: &ProOutcome| outcome.disorder[PERCENTILES.len() - 2] as f64;
        let marks = |outcome: &ProOutcome| (outcome.marks_at_tors + outcome.marks_at_aggs) as f64;
        let line = |variant| {
            let of = |value| self.values(ProScheme::Adaptive, variant, value);
            format!(
                "slowdown {}, out-of-order degree {} at the 99th percentile, {} marks",
                range(&of(|outcome| outcome.slowdown), 2),
                range(&of(p99), 0),
                range(&of(marks), 0),
            )
        };
        format!(
            "AR's grades (ring of {} MB): queue, then load: {}; queue only: {}.",
            self.megabytes,
            line(SensitivityVariant::AsInFig8),
            line(SensitivityVariant::QueueOnly)
        )
    }

    fn selective_repeat(&self) -> String {
        let resent = |scheme| {
            range(
                &self.values(scheme, SensitivityVariant::NicSr, |outcome| outcome.resent as f64),
                0,
            )
        };
        format!(
            "With selective repeat as RNICs do it, what overtakes makes them send again what was \
                not lost: AR {}, \
             DRILL {}, PRO {} packets (Fig. 8c).",
            resent(ProScheme::Adaptive),
            resent(ProScheme::Drill),
            resent(ProScheme::Pro)
        )
    }
}
