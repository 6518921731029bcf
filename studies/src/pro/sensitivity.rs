//! How the ring's result moves with what the paper does not state.

use braid_cc::{CcConfig, DcqcnConfig};
use braid_transport::LossRecovery;

use super::comparison::range;
use super::outcome::{Outcome, PERCENTILES, measure};
use super::setup::{Pattern, Scheme, Setup, dcqcn, paper_fabric};
use crate::{Axis, Effort, Figure, Kind, Point, Series, Study, run_all};
use braid_sim::switch::Policy;
use braid_sim::time::Ps;

/// About 1.2 times what a round trip of 8.3 us holds.
const WINDOW: u64 = 256_000;
/// What a link drains in a microsecond, bytes.
const DRAINED: u64 = 25_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    AsInFig8,
    NicSr,
    Windowed,
    QueueOnly,
}

impl Variant {
    /// Those that any scheme can have.
    const GENERAL: [Variant; 3] = [Variant::AsInFig8, Variant::NicSr, Variant::Windowed];

    fn name(self) -> &'static str {
        match self {
            Variant::AsInFig8 => "as in Fig. 8",
            Variant::NicSr => "RNICs with selective repeat",
            Variant::Windowed => "DCQCN with a window of 256 KB",
            Variant::QueueOnly => "graded by queue only",
        }
    }

    fn setup(self, scheme: Scheme, seed: u64) -> Setup {
        let usual = Setup::new(scheme, seed);
        match self {
            Variant::AsInFig8 => usual,
            Variant::NicSr => Setup { recovery: LossRecovery::NicSr, ..usual },
            Variant::Windowed => {
                let cc = CcConfig::new(DcqcnConfig { window: WINDOW, ..dcqcn() });
                Setup { cc, ..usual }
            }
            Variant::QueueOnly => {
                let bins = (1..8).map(|grade| grade * DRAINED).collect();
                Setup { policy: Some(Policy::Adaptive { bins, age: Ps::from_micros(1) }), ..usual }
            }
        }
    }
}

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let bytes = if effort.quick { 200_000 } else { 4_000_000 };
    let general = Scheme::COMPARED
        .into_iter()
        .flat_map(|scheme| Variant::GENERAL.map(|variant| (scheme, variant)));
    let cases: Vec<(Scheme, Variant, u64)> = general
        .chain([(Scheme::Adaptive, Variant::QueueOnly)])
        .flat_map(|(scheme, variant)| effort.seeds(2).map(move |seed| (scheme, variant, seed)))
        .collect();
    let outcomes = run_all("Other choices", cases.clone(), |(scheme, variant, seed)| {
        let topology = paper_fabric();
        let workload = Pattern::Ring.workload(&topology, bytes, seed);
        let plan = variant.setup(scheme, seed).plan(&topology, workload);
        measure(plan, false)
            .unwrap_or_else(|error| panic!("{scheme:?}, {variant:?}, seed {seed}: {error}"))
    });
    let values = |scheme: Scheme, variant: Variant, value: fn(&Outcome) -> f64| -> Vec<f64> {
        let here = cases
            .iter()
            .zip(&outcomes)
            .filter(|((of, with, _), _)| (*of, *with) == (scheme, variant));
        here.map(|(_, outcome)| value(outcome)).collect()
    };
    let bars = |variant: Variant| Series {
        name: variant.name().into(),
        points: Scheme::COMPARED
            .iter()
            .enumerate()
            .map(|(group, scheme)| {
                Point::bar(
                    group,
                    scheme.name(),
                    &values(*scheme, variant, |outcome| outcome.slowdown),
                )
            })
            .collect(),
    };
    study.figures.push(Figure {
        id: "fig08c".into(),
        title: format!(
            "Completion time over the ideal under other choices, ring of {} MB",
            bytes as f64 / 1e6
        ),
        x: Axis::linear("scheme"),
        y: Axis::log("slowdown"),
        kind: Kind::Bars,
        series: Variant::GENERAL.map(bars).into(),
    });
    let p99 = |outcome: &Outcome| outcome.disorder[PERCENTILES.len() - 2] as f64;
    let line = |variant| {
        format!(
            "slowdown {}, out-of-order degree {} at the 99th percentile, {} marks",
            range(&values(Scheme::Adaptive, variant, |outcome| outcome.slowdown), 2),
            range(&values(Scheme::Adaptive, variant, p99), 0),
            range(
                &values(Scheme::Adaptive, variant, |of| (of.marks_at_tors + of.marks_at_aggs)
                    as f64),
                0
            ),
        )
    };
    study.choices.push(format!(
        "AR's grades (ring of {} MB): queue, then load: {}; queue only: {}.",
        bytes as f64 / 1e6,
        line(Variant::AsInFig8),
        line(Variant::QueueOnly)
    ));
    let resent =
        |scheme| range(&values(scheme, Variant::NicSr, |outcome| outcome.resent as f64), 0);
    study.choices.push(format!(
        "With selective repeat as RNICs do it, what overtakes makes them send again what was not lost: AR {}, \
         DRILL {}, PRO {} packets (Fig. 8c).",
        resent(Scheme::Adaptive),
        resent(Scheme::Drill),
        resent(Scheme::Pro)
    ));
}
