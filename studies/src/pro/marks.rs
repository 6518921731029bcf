//! Table II: congestion marks in the ring.

use super::comparison::Comparison;
use super::outcome::ProOutcome;
use super::setup::{Pattern, ProScheme};
use crate::{Axis, Claim, Figure, Kind, Point, Series, Study, Verdict};

/// The marks of ToR and aggregation switches in the paper.
const PAPER: [(ProScheme, u64, u64); 5] = [
    (ProScheme::ConWeave, 2_020_578, 619_500),
    (ProScheme::Ecmp, 1_859_745, 1_453_340),
    (ProScheme::Adaptive, 2760, 0),
    (ProScheme::Drill, 0, 218),
    (ProScheme::Pro, 0, 0),
];

pub(super) fn add(runs: &Comparison, study: &mut Study) {
    let bars = |name: &str, value: fn(&ProOutcome) -> u64| Series {
        name: name.into(),
        points: PAPER
            .iter()
            .enumerate()
            .map(|(group, (scheme, ..))| {
                let counts = runs.values(Pattern::Ring, *scheme, runs.largest(), |outcome| {
                    value(outcome) as f64
                });
                Point::bar(group, scheme.name(), &counts)
            })
            .collect(),
    };
    study.figures.push(Figure {
        id: "tab02".into(),
        title: "Congestion marks in a ring".into(),
        x: Axis::linear("scheme"),
        y: Axis::linear("marked packets"),
        kind: Kind::Bars,
        series: vec![
            bars("ToR switches", |outcome| outcome.marks_at_tors),
            bars("aggregation switches", |outcome| outcome.marks_at_aggs),
        ],
    });
    let counts = |scheme| {
        let count = |value: fn(&ProOutcome) -> u64| {
            runs.mean(Pattern::Ring, scheme, runs.largest(), |outcome| value(outcome) as f64)
        };
        [
            count(|outcome| outcome.marks_at_tors),
            count(|outcome| outcome.marks_at_aggs),
            count(|outcome| outcome.marks_at_last_hops),
        ]
    };
    study.claims.push(without_marks(counts(ProScheme::Pro)));
    study.claims.push(adaptive(counts(ProScheme::Adaptive)));
    study.claims.push(drill(counts(ProScheme::Drill)));
    let by_flow = [ProScheme::Ecmp, ProScheme::ConWeave].map(|scheme| (scheme, counts(scheme)));
    let by_packet = [ProScheme::Adaptive, ProScheme::Drill].map(counts);
    study.claims.push(far_more(by_flow, by_packet));
    study.choices.push(
        "Table II counts marked packets at any port of a switch, those to hosts included, per run \
            of 16 MB; the \
         paper does not say over how many messages or iterations it counts."
            .into(),
    );
}

fn formatted(counts: [f64; 3]) -> String {
    format!(
        "{:.0} by ToR switches ({:.0} of them towards hosts), {:.0} by aggregation switches",
        counts[0], counts[2], counts[1]
    )
}

fn claim(says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: "tab02".into(), says: says.into(), measured, verdict }
}

fn without_marks(counts: [f64; 3]) -> Claim {
    let none = counts[0] + counts[1] == 0.0;
    let otherwise = "some queue grows beyond 100 KB; see the longest queues of theorem 1";
    claim("PRO: no marks at all", formatted(counts), Verdict::of(none, otherwise))
}

fn adaptive(counts: [f64; 3]) -> Claim {
    let only_up = counts[0] > 0.0 && counts[1] * 10.0 < counts[0];
    let says = "AR: marks by ToR switches (2760), none by aggregation switches: its uplinks are \
        imbalanced";
    let otherwise = "between two looks it sends bursts to the same few ports";
    claim(says, formatted(counts), Verdict::of(only_up, otherwise))
}

fn drill(counts: [f64; 3]) -> Claim {
    let only_down = counts[1] > 0.0 && counts[0] * 10.0 < counts[1];
    let says = "DRILL: marks by aggregation switches (218), none by ToR switches: its downlinks \
        are imbalanced";
    let otherwise = "those of ToR switches are on links to hosts, where packets meet that took \
        paths of different \
                     length";
    claim(says, formatted(counts), Verdict::of(only_down, otherwise))
}

fn far_more(by_flow: [(ProScheme, [f64; 3]); 2], by_packet: [[f64; 3]; 2]) -> Claim {
    let total = |counts: [f64; 3]| counts[0] + counts[1];
    let most = by_packet.map(total).into_iter().fold(1.0, f64::max);
    let factors = by_flow.map(|(_, counts)| total(counts) / most);
    let parts = by_flow.map(|(scheme, counts)| format!("{}: {}", scheme.name(), formatted(counts)));
    let measured = format!(
        "{}; {:.0} and {:.0} times the most of AR and DRILL",
        parts.join("; "),
        factors[0],
        factors[1]
    );
    let says = "ECMP and ConWeave: millions of marks (1.86 and 2.02 million by ToR switches), \
        hundreds of times \
                those of AR and DRILL";
    let otherwise = "ECMP's 3.3 million marks are more than the 2.05 million packets of a ring of \
        16 MB: the paper \
                     counts something longer, which it does not state. So only ratios can be \
                     compared, and here \
                     DCQCN cuts a marked flow within 4 us, so that long queues last for a few \
                     round trips only";
    claim(says, measured, Verdict::of(factors.iter().all(|factor| *factor >= 100.0), otherwise))
}
