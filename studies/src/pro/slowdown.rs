//! Figure 8: job completion time over the ideal.

use braid_cc::{CcConfig, FixedWindow};

use super::comparison::{Comparison, range};
use super::outcome::{Outcome, measure};
use super::setup::{Pattern, Scheme, Setup, dcqcn, one_switch, paper_fabric};
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Study, Verdict, run_all};
use braid_sim::topology::Topology;

/// What the paper gives PRO at all sizes, to two decimals.
const NEAR_OPTIMAL: f64 = 1.025;
/// What the paper says that PRO takes off the others' slowdown.
const REDUCTION: [f64; 2] = [0.509, 0.836];
/// What still counts as the same reduction.
const TOLERANCE: f64 = 0.15;

fn slowdown(outcome: &Outcome) -> f64 {
    outcome.slowdown
}

pub(super) fn add(effort: &Effort, runs: &Comparison, study: &mut Study) {
    for (id, pattern) in [("fig08a", Pattern::Ring), ("fig08b", Pattern::Tree)] {
        study.figures.push(Figure {
            id: id.into(),
            title: format!("Completion time over the ideal, {}", pattern.name()),
            x: Axis::log("message [MB]"),
            y: Axis::log("slowdown"),
            kind: Kind::Lines,
            series: runs.lines(pattern, slowdown),
        });
    }
    let fixed = CcConfig::new(FixedWindow { window: 1 << 30 });
    let unchecked = tree(effort, runs, "PRO, no congestion control", &paper_fabric(), fixed);
    let alone = tree(effort, runs, "one switch for all", &one_switch(), CcConfig::new(dcqcn()));
    let figure = study.figures.last_mut().expect("the tree's figure was just added");
    figure.series.extend([unchecked.clone(), alone.clone()]);
    study.claims.push(near_optimal(runs, Pattern::Ring, String::new()));
    study.claims.push(near_optimal(runs, Pattern::Tree, tree_reason(runs, &unchecked)));
    study.claims.push(near_one_switch(runs, &alone));
    study.claims.push(reduction(runs, Pattern::Ring));
    study.claims.push(reduction(runs, Pattern::Tree));
}

/// PRO's slowdown in every run of a pattern.
fn of_pro(runs: &Comparison, pattern: Pattern) -> Vec<f64> {
    let of_size = |bytes: &u64| runs.values(pattern, Scheme::Pro, *bytes, slowdown);
    runs.sizes().iter().flat_map(of_size).collect()
}

fn near_optimal(runs: &Comparison, pattern: Pattern, otherwise: String) -> Claim {
    let all = of_pro(runs, pattern);
    Claim {
        figure: "fig08".into(),
        says: format!("PRO's slowdown is 1.0 to 1.02 at all message sizes ({})", pattern.name()),
        measured: format!("{} in {} runs", range(&all, 3), all.len()),
        verdict: Verdict::of(all.iter().all(|slowdown| *slowdown < NEAR_OPTIMAL), otherwise),
    }
}

/// PRO's tree elsewhere, or under another congestion control, at the sizes of Fig. 8.
fn tree(
    effort: &Effort,
    runs: &Comparison,
    name: &str,
    topology: &Topology,
    cc: CcConfig,
) -> Series {
    let cases: Vec<(u64, u64)> =
        runs.sizes().iter().flat_map(|bytes| effort.seeds(3).map(|seed| (*bytes, seed))).collect();
    let outcomes = run_all(&format!("Fig. 8, {name}"), cases.clone(), |(bytes, seed)| {
        let workload = Pattern::Tree.workload(topology, bytes, seed);
        let setup = Setup { cc: cc.clone(), ..Setup::new(Scheme::Pro, seed) };
        measure(setup.plan(topology, workload), false)
            .unwrap_or_else(|error| panic!("{name}: tree of {bytes} bytes, seed {seed}: {error}"))
    });
    let point = |bytes: &u64| {
        let here = cases.iter().zip(&outcomes).filter(|((of, _), _)| of == bytes);
        Point::at(
            *bytes as f64 / 1e6,
            &here.map(|(_, outcome)| outcome.slowdown).collect::<Vec<_>>(),
        )
    };
    Series { name: name.into(), points: runs.sizes().iter().map(point).collect() }
}

/// PRO's tree against the ideal that a load balancer can come to: no fabric, but the same hosts, links and
/// congestion control.
fn near_one_switch(runs: &Comparison, alone: &Series) -> Claim {
    let over_alone = |(bytes, point): (&u64, &Point)| {
        runs.mean(Pattern::Tree, Scheme::Pro, *bytes, slowdown) / point.y.mean
    };
    let all: Vec<f64> = runs.sizes().iter().zip(&alone.points).map(over_alone).collect();
    Claim {
        figure: "fig08".into(),
        says: "PRO's slowdown is 1.0 to 1.02 (double binary tree), if the ideal is one switch for all hosts"
            .into(),
        measured: range(&all, 3),
        verdict: Verdict::of(
            all.iter().all(|slowdown| *slowdown < NEAR_OPTIMAL),
            "hosts' links are what is overloaded; in the fabric the same packets wait a little longer, and a few \
             more are marked",
        ),
    }
}

/// Why the tree is slower than the paper has it.
fn tree_reason(runs: &Comparison, unchecked: &Series) -> String {
    let mean = |value: fn(&Outcome) -> u64| {
        runs.mean(Pattern::Tree, Scheme::Pro, runs.largest(), |outcome| value(outcome) as f64)
    };
    let at_hosts = mean(|outcome| outcome.marks_at_last_hops);
    let hosts = mean(|outcome| outcome.marked_hosts as u64);
    let in_core =
        mean(|outcome| outcome.marks_at_tors - outcome.marks_at_last_hops + outcome.marks_at_aggs);
    let without: Vec<f64> = unchecked.points.iter().map(|point| point.y.mean).collect();
    format!(
        "not the fabric but the hosts' own links: of PRO's marks with the largest message {at_hosts:.0} are on \
         the links to {hosts:.0} hosts and {in_core:.0} in the core. A host has two parents, and a parent gives \
         one child its whole link whenever it has nothing for the other: together they overload the child, DCQCN \
         halves them, and takes 300 us for each step back. Without congestion control PRO's slowdown is {}. How \
         the paper's tree avoids this it does not say",
        range(&without, 3)
    )
}

/// By how much PRO's slowdown is below each other scheme's. The paper's extremes belong to sizes that it does not
/// state; they are compared with ours at its default size.
fn reduction(runs: &Comparison, pattern: Pattern) -> Claim {
    let others = Scheme::COMPARED.into_iter().filter(|scheme| *scheme != Scheme::Pro);
    let reductions = others.map(|scheme| {
        let of_size = |bytes: &u64| {
            let mean = |scheme| runs.mean(pattern, scheme, *bytes, slowdown);
            1.0 - mean(Scheme::Pro) / mean(scheme)
        };
        (scheme, runs.sizes().iter().map(of_size).collect::<Vec<f64>>())
    });
    let reductions: Vec<(Scheme, Vec<f64>)> = reductions.collect();
    let listed: Vec<String> = reductions
        .iter()
        .map(|(scheme, by_size)| {
            let percent: Vec<String> =
                by_size.iter().map(|share| format!("{:.0}", 100.0 * share)).collect();
            format!("{} {} %", scheme.name(), percent.join(", "))
        })
        .collect();
    let last = reductions.iter().map(|(_, by_size)| by_size[by_size.len() - 1]);
    let least = last.clone().fold(f64::INFINITY, f64::min);
    let most = last.fold(f64::NEG_INFINITY, f64::max);
    let sizes: Vec<String> =
        runs.sizes().iter().map(|bytes| (*bytes as f64 / 1e6).to_string()).collect();
    let close = |is: f64, said: f64| (is - said).abs() < TOLERANCE;
    Claim {
        figure: "fig08".into(),
        says: format!("PRO's slowdown is 50.9 to 83.6 % below the others' ({})", pattern.name()),
        measured: format!("with {} MB: {}", sizes.join(", "), listed.join("; ")),
        verdict: Verdict::of(
            close(least, REDUCTION[0]) && close(most, REDUCTION[1]),
            reason(pattern),
        ),
    }
}

fn reason(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Ring => {
            "the order of the schemes is the paper's, the distances are not: they are made of single flows that \
             DCQCN has cut, and of how long they take to recover"
        }
        Pattern::Tree => {
            "all schemes, PRO too, wait for the flows that DCQCN has cut on the links to hosts"
        }
    }
}
