//! Theorem 1: PRO's queues in the core do not grow with the message. Nothing may slow the hosts
//! down, because congestion control bounds the queues of every scheme.

use super::outcome::{ProOutcome, measure};
use super::setup::{MESSAGE, Pattern, ProScheme, ProSetup, paper_fabric, uncontrolled};
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Study, Verdict, run_all};

/// The largest exponent that counts as no growth.
const FLAT: f64 = 0.15;
/// Maximum runs per point.
const SEEDS: u32 = 1;

/// Returns the longest queue of the core, in packets.
fn longest(outcome: &ProOutcome) -> f64 {
    f64::from(outcome.uplink_queue.max(outcome.downlink_queue))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BoundedCase {
    pattern: Pattern,
    scheme: ProScheme,
    bytes: u64,
}

/// The longest queues of every scheme without congestion control.
struct BoundedQueues {
    sizes: Vec<u64>,
    runs: Vec<(BoundedCase, f64)>,
}

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let queues = BoundedQueues::run(effort);
    for (id, pattern) in [("theorem1a", Pattern::Ring), ("theorem1b", Pattern::TREE)] {
        study.figures.push(Figure {
            id: id.into(),
            title: format!(
                "Longest queue between switches without congestion control, {}",
                pattern.name()
            ),
            x: Axis::log("message [MB]"),
            y: Axis::log("longest queue [packets, control included]"),
            kind: Kind::Lines,
            series: ProScheme::COMPARED.map(|scheme| queues.line(pattern, scheme)).into(),
        });
        study.claims.push(queues.claim(pattern));
    }
    study.choices.push(
        "Theorem 1 is judged without congestion control, which keeps everybody's queues short: \
            hosts send at line \
         rate, PFC stays. There is one run per point."
            .into(),
    );
}

impl BoundedQueues {
    fn run(effort: &Effort) -> BoundedQueues {
        let sizes = match effort.quick {
            true => vec![250_000, 1_000_000],
            false => vec![1_000_000, 4_000_000, MESSAGE],
        };
        let mut cases = Vec::new();
        for bytes in sizes.iter().copied().rev() {
            for pattern in [Pattern::TREE, Pattern::Ring] {
                for scheme in ProScheme::COMPARED {
                    let case = BoundedCase { pattern, scheme, bytes };
                    cases.extend(effort.seeds(SEEDS).map(|seed| (case, seed)));
                }
            }
        }
        let runs = run_all("Theorem 1", cases, |(case, seed)| (case, case.longest_queue(seed)));
        BoundedQueues { sizes, runs }
    }

    fn values(&self, of: BoundedCase) -> Vec<f64> {
        let here = self.runs.iter().filter(|(case, _)| *case == of);
        here.map(|(_, queue)| *queue).collect()
    }

    fn line(&self, pattern: Pattern, scheme: ProScheme) -> Series {
        let point = |bytes: &u64| {
            let queues = self.values(BoundedCase { pattern, scheme, bytes: *bytes });
            Point::at(*bytes as f64 / 1e6, &queues)
        };
        Series { name: scheme.name().into(), points: self.sizes.iter().map(point).collect() }
    }

    /// Returns the mean queues by size.
    fn by_size(&self, pattern: Pattern, scheme: ProScheme) -> Vec<f64> {
        self.line(pattern, scheme).points.iter().map(|point| point.y.mean).collect()
    }

    fn claim(&self, pattern: Pattern) -> Claim {
        let growth = |scheme| exponent(&self.sizes, &self.by_size(pattern, scheme));
        let others = ProScheme::COMPARED.into_iter().filter(|scheme| *scheme != ProScheme::Pro);
        let listed = |scheme: ProScheme| {
            let queues = self.by_size(pattern, scheme);
            let packets: Vec<String> = queues.iter().map(|queue| format!("{queue:.0}")).collect();
            format!("{} {} ({:.2})", scheme.name(), packets.join(", "), growth(scheme))
        };
        let all: Vec<String> = ProScheme::COMPARED.into_iter().rev().map(listed).collect();
        let sizes: Vec<String> =
            self.sizes.iter().map(|bytes| (*bytes as f64 / 1e6).to_string()).collect();
        let tells = others.map(growth).any(|exponent| exponent > FLAT);
        Claim {
            figure: "theorem 1".into(),
            says: format!(
                "PRO's queues in the core are bounded, whatever the message, at full load ({})",
                pattern.name()
            ),
            measured: format!(
                "longest queue, packets, with {} MB, and the exponent of its growth: {}",
                sizes.join(", "),
                all.join("; ")
            ),
            verdict: match tells {
                false => Verdict::NotJudged("no scheme's queues grow".into()),
                true => {
                    Verdict::of(growth(ProScheme::Pro) <= FLAT, "the queues grow with the message")
                }
            },
        }
    }
}

impl BoundedCase {
    fn longest_queue(self, seed: u64) -> f64 {
        let topology = paper_fabric();
        let workload = self.pattern.workload(&topology, self.bytes, seed);
        let setup = ProSetup { cc: uncontrolled(), ..ProSetup::new(self.scheme, seed) };
        let outcome = measure(setup.plan(&topology, workload), false);
        longest(&outcome.unwrap_or_else(|error| panic!("{self:?}, seed {seed}: {error}")))
    }
}

/// Returns the exponent of the power law that fits best, by least squares of the logarithms.
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
