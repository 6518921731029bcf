//! Figure 12: the reordering extent in the ring.

use super::comparison::Comparison;
use super::outcome::{PERCENTILES, ProOutcome};
use super::setup::{Pattern, ProScheme};
use crate::{Axis, Claim, Figure, Kind, Study, Verdict};

/// The percentile of the paper's comparison.
const P99: usize = 4;

fn degree(outcome: &ProOutcome, at: usize) -> f64 {
    outcome.disorder[at] as f64
}

pub(super) fn add(runs: &Comparison, study: &mut Study) {
    study.figures.push(Figure {
        id: "fig12".into(),
        title: "Out-of-order degree in a ring".into(),
        x: Axis::linear("percentile of packets"),
        y: Axis::linear("ahead of the last in order [packets]"),
        kind: Kind::Lines,
        series: runs.percentiles(&PERCENTILES, degree),
    });
    let p99 =
        |scheme| runs.mean(Pattern::Ring, scheme, runs.largest(), |outcome| degree(outcome, P99));
    let [ar, drill, pro] = [ProScheme::Adaptive, ProScheme::Drill, ProScheme::Pro].map(p99);
    study.claims.push(Claim {
        figure: "fig12".into(),
        says: "PRO: 4 packets out of order at the 99th percentile, at 94 % load".into(),
        measured: format!("{pro:.1} packets"),
        verdict: Verdict::of(pro <= 4.0, "its queues differ by more than a few packets"),
    });
    study.claims.push(Claim {
        figure: "fig12".into(),
        says: "AR 44 and DRILL 22 packets at the 99th percentile".into(),
        measured: format!(
            "AR {ar:.0}, DRILL {drill:.0} packets, {:.0} and {:.0} times \
            PRO's",
            ar / pro.max(1.0),
            drill / pro.max(1.0)
        ),
        verdict: Verdict::of(
            (22.0..=88.0).contains(&ar) && (11.0..=44.0).contains(&drill) && ar > drill,
            "the order is the paper's, the degrees are higher. They follow the longest queue that \
                a flow meets: \
             here DRILL's downlinks reach the marking threshold of 100 KB, which is 94 packets, \
             and so must \
             the paper's, since they mark. The paper does not say which packets it counts, in \
             order or not",
        ),
    });
}
