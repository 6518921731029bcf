//! Figure 9: the balance of links and queues in the ring.

use super::comparison::Comparison;
use super::outcome::{Balance, Distribution, ProOutcome};
use super::setup::{Pattern, ProScheme};
use crate::{Axis, Claim, Figure, Kind, Study, Verdict};

const PERCENTS: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
/// The percentile of the paper's comparison.
const COMPARED_AT: f64 = 99.0;

type Part = fn(&Balance) -> &Distribution;

const UPLINK_LOADS: Part = |balance| &balance.uplink_loads;
const DOWNLINK_LOADS: Part = |balance| &balance.downlink_loads;
const UPLINK_QUEUES: Part = |balance| &balance.uplink_queues;
const DOWNLINK_QUEUES: Part = |balance| &balance.downlink_queues;

fn at(outcome: &ProOutcome, part: Part, percent: f64) -> f64 {
    outcome.balance.as_ref().map_or(0.0, |balance| part(balance).percentile(percent))
}

pub(super) fn add(runs: &Comparison, study: &mut Study) {
    for (id, title, part) in [
        ("fig09a", "Highest load over mean load, links up from a ToR switch", UPLINK_LOADS),
        ("fig09b", "Highest load over mean load, links down to a ToR switch", DOWNLINK_LOADS),
    ] {
        study.figures.push(Figure {
            id: id.into(),
            title: title.into(),
            x: Axis::linear("percentile of 10 us intervals"),
            y: Axis::linear("highest over mean"),
            kind: Kind::Lines,
            series: runs
                .percentiles(&PERCENTS, |outcome, index| at(outcome, part, PERCENTS[index])),
        });
    }
    for (id, title, part) in [
        ("fig09c", "Longest less mean queue, links up from a ToR switch", UPLINK_QUEUES),
        ("fig09d", "Longest less mean queue, links down to a ToR switch", DOWNLINK_QUEUES),
    ] {
        let kilobytes =
            |outcome: &ProOutcome, index: usize| at(outcome, part, PERCENTS[index]) / 1e3;
        study.figures.push(Figure {
            id: id.into(),
            title: title.into(),
            x: Axis::linear("percentile of readings, one per 0.1 us"),
            y: Axis::linear("longest less mean [KB]"),
            kind: Kind::Lines,
            series: runs.percentiles(&PERCENTS, kilobytes),
        });
    }
    study.claims.push(loads(runs));
    study.claims.push(granularity(runs));
    study.claims.push(queues(runs));
    study.claims.push(up_and_down(runs));
    study.choices.push(
        "Fig. 9: equal links are compared, those up from one ToR switch and those down to one, \
            and only until \
         the ring would ideally be done. Over all links of a layer nothing could be balanced: \
         neighbours below \
         the same ToR switch load neither."
            .into(),
    );
}

fn mean(runs: &Comparison, scheme: ProScheme, part: Part) -> f64 {
    runs.mean(Pattern::Ring, scheme, runs.largest(), |outcome| at(outcome, part, COMPARED_AT))
}

/// Returns the value of every other scheme over PRO's.
fn factors(runs: &Comparison, part: Part) -> Vec<(ProScheme, f64)> {
    let others = ProScheme::COMPARED.into_iter().filter(|scheme| *scheme != ProScheme::Pro);
    others
        .map(|scheme| (scheme, mean(runs, scheme, part) / mean(runs, ProScheme::Pro, part)))
        .collect()
}

fn listed(factors: &[(ProScheme, f64)]) -> String {
    let parts = factors.iter().map(|(scheme, factor)| format!("{} {factor:.1}", scheme.name()));
    parts.collect::<Vec<_>>().join(", ")
}

fn most(factors: &[(ProScheme, f64)]) -> f64 {
    factors.iter().map(|(_, factor)| *factor).fold(0.0, f64::max)
}

fn loads(runs: &Comparison) -> Claim {
    let (up, down) = (factors(runs, UPLINK_LOADS), factors(runs, DOWNLINK_LOADS));
    let [up_pro, down_pro] =
        [UPLINK_LOADS, DOWNLINK_LOADS].map(|part| mean(runs, ProScheme::Pro, part));
    let best = most(&up).max(most(&down));
    Claim {
        figure: "fig09".into(),
        says: "links are 6.8 times better balanced at the 99th percentile".into(),
        measured: format!(
            "PRO {up_pro:.2} up and {down_pro:.2} down; times PRO's, up: {}; down: {}",
            listed(&up),
            listed(&down)
        ),
        verdict: Verdict::of(
            (5.0..=10.0).contains(&best),
            "with 8 equal links the highest load is at most 8 times the mean, which ECMP reaches \
                where all \
             flows of a switch meet on one link",
        ),
    }
}

/// Judges schemes of packets against schemes of flows.
fn granularity(runs: &Comparison) -> Claim {
    let of = |schemes: &[ProScheme]| {
        let loads = schemes.iter().map(|scheme| {
            mean(runs, *scheme, UPLINK_LOADS).max(mean(runs, *scheme, DOWNLINK_LOADS))
        });
        loads.collect::<Vec<f64>>()
    };
    let packets = of(&[ProScheme::Pro, ProScheme::Drill, ProScheme::Adaptive]);
    let flows = of(&[ProScheme::ConWeave, ProScheme::Ecmp]);
    Claim {
        figure: "fig09".into(),
        says: "PRO, DRILL and AR balance links better than ConWeave and ECMP".into(),
        measured: format!(
            "highest over mean load at the 99th percentile: PRO {:.2}, DRILL {:.2}, AR {:.2}; \
                ConWeave {:.2}, ECMP {:.2}",
            packets[0], packets[1], packets[2], flows[0], flows[1]
        ),
        verdict: Verdict::of(
            packets.iter().all(|packet| flows.iter().all(|flow| packet < flow)),
            "a scheme of flows is as even",
        ),
    }
}

fn queues(runs: &Comparison) -> Claim {
    let (up, down) = (factors(runs, UPLINK_QUEUES), factors(runs, DOWNLINK_QUEUES));
    let all: Vec<f64> = up.iter().chain(&down).map(|(_, factor)| *factor).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let [up_pro, down_pro] =
        [UPLINK_QUEUES, DOWNLINK_QUEUES].map(|part| mean(runs, ProScheme::Pro, part) / 1e3);
    Claim {
        figure: "fig09".into(),
        says: "queues are 0.6 to 55 times better balanced at the 99th percentile".into(),
        measured: format!(
            "PRO {up_pro:.1} KB up and {down_pro:.1} KB down; times PRO's, up: {}; down: {}",
            listed(&up),
            listed(&down)
        ),
        verdict: Verdict::of(
            (0.2..=2.0).contains(&least) && most(&up).max(most(&down)) >= 27.0,
            "read with half and twice the paper's factors as the limits",
        ),
    }
}

/// Judges that DRILL is better than AR up, and AR better than DRILL down.
fn up_and_down(runs: &Comparison) -> Claim {
    let value = |scheme, part| mean(runs, scheme, part) / 1e3;
    let [ar_up, drill_up] =
        [ProScheme::Adaptive, ProScheme::Drill].map(|scheme| value(scheme, UPLINK_QUEUES));
    let [ar_down, drill_down] =
        [ProScheme::Adaptive, ProScheme::Drill].map(|scheme| value(scheme, DOWNLINK_QUEUES));
    Claim {
        figure: "fig09".into(),
        says: "up, DRILL's queues are better balanced than AR's, whose view is old; down, AR's \
            look better, \
               since what is stuck above the ToR switches does not come"
            .into(),
        measured: format!(
            "99th percentile up: AR {ar_up:.1} KB, DRILL {drill_up:.1} KB; down: AR {ar_down:.1} \
                KB, DRILL \
             {drill_down:.1} KB"
        ),
        verdict: Verdict::of(
            drill_up < ar_up && ar_down < drill_down,
            "one of the two is the \
            other way round",
        ),
    }
}
