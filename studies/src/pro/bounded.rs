//! Theorem 1: PRO's queues in the core do not grow with the message.

use super::comparison::Comparison;
use super::outcome::Outcome;
use super::setup::{Pattern, Scheme};
use crate::{Axis, Claim, Figure, Kind, Study, Verdict};

/// Exponents up to here count as no growth.
const FLAT: f64 = 0.15;

/// The longest queue of the core, packets.
fn longest(outcome: &Outcome) -> f64 {
    f64::from(outcome.uplink_queue.max(outcome.downlink_queue))
}

pub(super) fn add(runs: &Comparison, study: &mut Study) {
    for (id, pattern) in [("theorem1a", Pattern::Ring), ("theorem1b", Pattern::Tree)] {
        study.figures.push(Figure {
            id: id.into(),
            title: format!("Longest queue between switches, {}", pattern.name()),
            x: Axis::log("message [MB]"),
            y: Axis::log("longest queue [packets, control included]"),
            kind: Kind::Lines,
            series: runs.lines(pattern, longest),
        });
    }
    study.claims.push(claim(runs));
}

fn claim(runs: &Comparison) -> Claim {
    let mean = |scheme, bytes: &u64| runs.mean(Pattern::Ring, scheme, *bytes, longest);
    let of = |scheme| runs.sizes().iter().map(|bytes| mean(scheme, bytes)).collect::<Vec<_>>();
    let pro = of(Scheme::Pro);
    let growth = exponent(runs.sizes(), &pro);
    let others = Scheme::COMPARED.into_iter().filter(|scheme| *scheme != Scheme::Pro);
    let listed: Vec<String> = others
        .map(|scheme| format!("{} {:.2}", scheme.name(), exponent(runs.sizes(), &of(scheme))))
        .collect();
    let packets: Vec<String> = pro.iter().map(|packets| format!("{packets:.0}")).collect();
    let megabytes: Vec<String> =
        runs.sizes().iter().map(|bytes| format!("{}", *bytes as f64 / 1e6)).collect();
    Claim {
        figure: "theorem 1".into(),
        says: "PRO's queues in the core are bounded, whatever the message, at full load".into(),
        measured: format!(
            "ring of {} MB: at most {} packets; they grow as the message to the power of {growth:.2} ({})",
            megabytes.join(", "),
            packets.join(", "),
            listed.join(", ")
        ),
        verdict: Verdict::of(growth.abs() <= FLAT, "the queues grow with the message"),
    }
}

/// Of the power law that fits best, by least squares of the logarithms.
fn exponent(sizes: &[u64], queues: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .zip(queues)
        .map(|(size, queue)| ((*size as f64).ln(), queue.max(1.0).ln()))
        .collect();
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / along
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_of_powers_are_found() {
        let sizes = [1_000, 4_000, 16_000];
        assert!((exponent(&sizes, &[10.0, 20.0, 40.0]) - 0.5).abs() < 1e-9);
        assert!(exponent(&sizes, &[12.0, 12.0, 12.0]).abs() < 1e-9);
    }
}
