//! Figure 8: job completion time over the ideal.

use super::comparison::{Comparison, range};
use super::outcome::ProOutcome;
use super::setup::{PIPELINE, Pattern, ProScheme};
use super::variants::{CONTROL_HASHED, ROOTS_AT_ONCE, ROOTS_JOINED, STRICT, Variants};
use crate::{Axis, Claim, Effort, Figure, Kind, Series, Study, Verdict};

/// PRO's slowdown at all sizes in the paper, to two decimals.
const NEAR_OPTIMAL: f64 = 1.025;
/// The reduction of the others' slowdown in the paper.
const REDUCTION: [f64; 2] = [0.509, 0.836];
/// Tolerance of the reduction.
const TOLERANCE: f64 = 0.15;

fn slowdown(outcome: &ProOutcome) -> f64 {
    outcome.slowdown
}

pub(super) fn add(effort: &Effort, runs: &Comparison, study: &mut Study) {
    let variants = Variants::run(effort, runs.sizes());
    let figure = |id: &str, pattern: Pattern, more: Vec<Series>| Figure {
        id: id.into(),
        title: format!("Completion time over the ideal, {}", pattern.name()),
        x: Axis::log("message [MB]"),
        y: Axis::log("slowdown"),
        kind: Kind::Lines,
        series: runs.lines(pattern, slowdown).into_iter().chain(more).collect(),
    };
    let trees = [ROOTS_AT_ONCE, ROOTS_JOINED, STRICT].map(|of| variants.line(of));
    study.figures.extend([
        figure("fig08a", Pattern::Ring, vec![variants.line(CONTROL_HASHED)]),
        figure("fig08b", Pattern::TREE, trees.into()),
    ]);
    study.claims.push(near_optimal(runs, Pattern::Ring));
    study.claims.push(near_optimal(runs, Pattern::TREE));
    study.claims.push(reduction(runs));
    study.choices.push(roots(&variants, runs.largest()));
    study.choices.push(format!(
        "Acknowledgements take the path of what they answer. Hashed per flow, as in conweave-ns3, \
            they collide on \
         links that PRO fills: its ring then takes {} of the ideal.",
        variants.slowdowns(CONTROL_HASHED)
    ));
}

fn near_optimal(runs: &Comparison, pattern: Pattern) -> Claim {
    let of_size = |bytes: &u64| runs.values(pattern, ProScheme::Pro, *bytes, slowdown);
    let by_size: Vec<String> = runs
        .sizes()
        .iter()
        .map(|bytes| format!("{} MB {}", *bytes as f64 / 1e6, range(&of_size(bytes), 3)))
        .collect();
    let near = |bytes: &u64| of_size(bytes).iter().all(|slowdown| *slowdown < NEAR_OPTIMAL);
    let far = runs.sizes().iter().filter(|bytes| !near(bytes)).count();
    let marks = runs.mean(pattern, ProScheme::Pro, runs.largest(), |outcome| {
        (outcome.marks_at_tors + outcome.marks_at_aggs) as f64
    });
    let verdict = Verdict::of(
        far == 0,
        format!(
            "at {far} of {} sizes it is above; {marks:.0} packets are marked with the largest \
                message",
            runs.sizes().len()
        ),
    );
    Claim {
        figure: "fig08".into(),
        says: format!("PRO's slowdown is 1.0 to 1.02 at all message sizes ({})", pattern.name()),
        measured: by_size.join(", "),
        verdict,
    }
}

/// Describes the behaviour of the tree's roots, and its alternatives.
fn roots(variants: &Variants, largest: u64) -> String {
    let mean = |value: fn(&ProOutcome) -> u64| {
        let values = variants.values(ROOTS_AT_ONCE, largest, |outcome| value(outcome) as f64);
        values.iter().sum::<f64>() / values.len() as f64
    };
    format!(
        "In the double binary tree everybody sends two messages and receives two, but for the two \
            roots, who have one \
         child each. A root that sends all at once sends twice as fast as its child can pass on, \
         and overloads it \
         together with the child's other parent: {:.0} marks on the links to {:.0} hosts, and a \
         slowdown of {}. A \
         root is therefore limited to what its child passes on: {} chunks of {} KB may wait in \
         the child's buffer \
         (pipelining, as in NCCL). With the roots joined to each other instead: {}. If everybody \
         passes on a chunk only \
         when it has come: {}; that includes the depth of the tree.",
        mean(|outcome| outcome.marks_at_last_hops),
        mean(|outcome| outcome.marked_hosts as u64),
        variants.slowdowns(ROOTS_AT_ONCE),
        PIPELINE.ahead,
        PIPELINE.chunk_bytes as f64 / 1e3,
        variants.slowdowns(ROOTS_JOINED),
        variants.slowdowns(STRICT),
    )
}

/// The reduction of another scheme's slowdown by PRO.
struct Reduction {
    pattern: Pattern,
    scheme: ProScheme,
    /// The reductions by size.
    shares: Vec<f64>,
}

impl Reduction {
    fn all(runs: &Comparison) -> Vec<Reduction> {
        let others = ProScheme::COMPARED.into_iter().filter(|scheme| *scheme != ProScheme::Pro);
        let cases = [Pattern::Ring, Pattern::TREE]
            .into_iter()
            .flat_map(|pattern| others.clone().map(move |scheme| (pattern, scheme)));
        let of = |(pattern, scheme)| {
            let of_size = |bytes: &u64| {
                let mean = |scheme| runs.mean(pattern, scheme, *bytes, slowdown);
                1.0 - mean(ProScheme::Pro) / mean(scheme)
            };
            Reduction { pattern, scheme, shares: runs.sizes().iter().map(of_size).collect() }
        };
        cases.map(of).collect()
    }
}

/// Judges the range over all schemes, patterns and sizes, as given in the paper.
fn reduction(runs: &Comparison) -> Claim {
    let reductions = Reduction::all(runs);
    let all = reductions.iter().flat_map(|reduction| &reduction.shares);
    let least = all.clone().copied().fold(f64::INFINITY, f64::min);
    let most = all.copied().fold(f64::NEG_INFINITY, f64::max);
    let listed: Vec<String> = reductions
        .iter()
        .map(|Reduction { pattern, scheme, shares }| {
            let percent: Vec<String> =
                shares.iter().map(|share| format!("{:.0}", 100.0 * share)).collect();
            let pattern = if *pattern == Pattern::Ring { "ring" } else { "tree" };
            format!("{pattern} {} {} %", scheme.name(), percent.join(", "))
        })
        .collect();
    let sizes: Vec<String> =
        runs.sizes().iter().map(|bytes| (*bytes as f64 / 1e6).to_string()).collect();
    let close = |is: f64, said: f64| (is - said).abs() < TOLERANCE;
    let verdict = Verdict::of(
        close(least, REDUCTION[0]) && close(most, REDUCTION[1]),
        "the distances are made of single flows that DCQCN has cut, and of how long they take to \
            recover: a \
             scheme that marks nothing in a short message is as good as PRO",
    );
    Claim {
        figure: "fig08".into(),
        says: "PRO's slowdown is 50.9 to 83.6 % below the others'".into(),
        measured: format!(
            "{:.1} to {:.1} %; with {} MB: {}",
            100.0 * least,
            100.0 * most,
            sizes.join(", "),
            listed.join("; ")
        ),
        verdict,
    }
}
