//! Figure 6 and Theorems 1 to 4: the growth of queues with the message.

use std::ops::Range;

use super::scheme::OfanScheme::{self, *};
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};

const SCHEMES: [OfanScheme; 9] =
    [SimpleRr, Jsq, Rsq, HostPkt, SwitchPkt, HostPktAr, SwitchPktAr, HostDr, Ofan];

/// The schemes with linear growth (theorem 1), and the exponents that count as linear.
const LINEAR: [OfanScheme; 2] = [SimpleRr, Jsq];
const ABOUT_ONE: Range<f64> = 0.8..1.2;

/// A theorem's name, its statement about a scheme, and the exponents that agree with it.
type Theorem = (&'static str, &'static str, OfanScheme, Range<f64>);

/// The theorems other than theorem 1, which is about paced hosts.
const THEOREMS: [Theorem; 4] = [
    ("theorem 2", "grows at least as the square root", Rsq, 0.35..f64::INFINITY),
    ("theorem 2", "grows at least as the square root", HostPkt, 0.35..f64::INFINITY),
    ("theorem 3", "is bounded", HostDr, -0.15..0.15),
    ("theorem 4", "is bounded", Ofan, -0.15..0.15),
];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let sizes: &[u64] = match effort.quick {
        true => &[64 << 10, 256 << 10, 1 << 20],
        false => &[64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
    };
    let make =
        |scheme, bytes, seed| OfanSetup { bytes, unlimited: true, ..OfanSetup::new(scheme, seed) };
    let sweep = Sweep::run("Fig. 6", &SCHEMES, sizes, effort.seeds(3), make);
    let make_paced = |scheme, bytes, seed| OfanSetup { paced: true, ..make(scheme, bytes, seed) };
    let paced = Sweep::run("Theorem 1", &LINEAR, sizes, effort.seeds(3), make_paced);
    let figure = |id: &str, title: &str, label: &str, log, value: fn(&OfanOutcome) -> f64| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::log("message [packets]"),
        y: Axis { label: label.into(), log },
        kind: Kind::Lines,
        series: sweep.lines(packets, value),
    };
    study.figures.push(figure(
        "fig06a",
        "Completion time of a permutation by message size",
        "CCT beyond the lower bound [%]",
        false,
        OfanOutcome::increase,
    ));
    study.figures.push(figure(
        "fig06b",
        "Longest queue in a permutation by message size",
        "longest queue [full packets]",
        true,
        |outcome| outcome.max_queue,
    ));
    let linear = LINEAR.map(|scheme| ("theorem 1", "grows linearly", scheme, ABOUT_ONE));
    study.claims.extend(linear.map(|theorem| claim(&paced, sizes, theorem)));
    study.claims.extend(THEOREMS.map(|theorem| claim(&sweep, sizes, theorem)));
    study.claims.push(first_group(&sweep, &paced, sizes));
    study.claims.push(between(&sweep, sizes));
    study.claims.push(correlation(&sweep, sizes));
    study.choices.push(
        "Fig. 6: queues have no limit, as in the theorems; with 800 KB per port those of SIMPLE \
            RR and JSQ \
         stop at 192 packets of data, and the rest is lost. A queue is the longest of any switch \
         at any time, \
         its bytes counted in full packets. At most 3 runs."
            .into(),
    );
    study.choices.push(
        "Theorem 1 is about senders that are \"paced at identical rates\". In Fig. 6 as in all \
            others a host \
         sends at line rate what its own acknowledgements leave of its link, so that its rate \
         depends on what it \
         receives. For theorem 1 hosts are paced at what is left when every packet is answered: \
         98 % of the link."
            .into(),
    );
}

fn packets(bytes: u64) -> f64 {
    bytes as f64 / 4096.0
}

/// Returns the exponent b of the power law a * m^b that fits the longest queue best (least squares
/// of logarithms).
fn exponent(sweep: &Sweep<u64>, sizes: &[u64], scheme: OfanScheme) -> f64 {
    let queue = |bytes: u64| sweep.spread(scheme, bytes, |outcome| outcome.max_queue).mean;
    let points = sizes.iter().map(|bytes| (packets(*bytes).ln(), queue(*bytes).ln()));
    slope(&points.collect::<Vec<_>>())
}

/// Returns the slope of the straight line that fits best.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut above, mut below) = (0.0, 0.0);
    for point in points {
        above += (point.0 - x) * (point.1 - y);
        below += (point.0 - x).powi(2);
    }
    above / below
}

fn claim(sweep: &Sweep<u64>, sizes: &[u64], (name, says, scheme, expected): Theorem) -> Claim {
    let exponent = exponent(sweep, sizes, scheme);
    let queue = |bytes: u64| sweep.spread(scheme, bytes, |outcome| outcome.max_queue).mean;
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    Claim {
        figure: name.into(),
        says: format!("the queue of {} {says}", scheme.name()),
        measured: format!(
            "exponent {exponent:.2}: {:.0} packets for messages of {:.0}, {:.0} for {:.0}",
            queue(first),
            packets(first),
            queue(last),
            packets(last)
        ),
        verdict: Verdict::of(
            expected.contains(&exponent),
            format!("the exponent is not within {expected:?}"),
        ),
    }
}

/// Judges the first group of Fig. 6, whose hosts need not all send at one rate.
fn first_group(sweep: &Sweep<u64>, paced: &Sweep<u64>, sizes: &[u64]) -> Claim {
    let of = |sweep| LINEAR.map(|scheme| exponent(sweep, sizes, scheme));
    let ([rr, jsq], [paced_rr, paced_jsq]) = (of(sweep), of(paced));
    Claim {
        figure: "fig. 6".into(),
        says: "SIMPLE RR and JSQ grow nearly linearly".into(),
        measured: format!(
            "exponents: SIMPLE RR {rr:.2}, JSQ {jsq:.2}; paced, as the theorem has it, \
                {paced_rr:.2} and {paced_jsq:.2}"
        ),
        verdict: Verdict::of(
            [rr, jsq].iter().all(|exponent| ABOUT_ONE.contains(exponent)),
            "hosts answer before they send, so whoever gets its data late sends its own faster: \
                rates are not \
             equal, and flows that share a link come apart. Where all are paced at one rate they \
             do not",
        ),
    }
}

/// Judges the second group of Fig. 6.
fn between(sweep: &Sweep<u64>, sizes: &[u64]) -> Claim {
    let group = [HostPkt, Rsq, HostPktAr, SwitchPktAr];
    let exponents = group.map(|scheme| exponent(sweep, sizes, scheme));
    let listed: Vec<String> = group
        .iter()
        .zip(exponents)
        .map(|(scheme, exponent)| format!("{} {exponent:.2}", scheme.name()))
        .collect();
    Claim {
        figure: "fig. 6".into(),
        says: "HOST PKT, RSQ, HOST PKT AR and SWITCH PKT AR grow about as the square root".into(),
        measured: format!("exponents: {}", listed.join(", ")),
        verdict: Verdict::of(
            exponents.iter().all(|exponent| (0.25..0.75).contains(exponent)),
            "an exponent is not within 0.25..0.75",
        ),
    }
}

/// Computes the correlation over the schemes, at the largest size up to 1 MiB.
fn correlation(sweep: &Sweep<u64>, sizes: &[u64]) -> Claim {
    let size = sizes.iter().copied().filter(|size| *size <= 1 << 20).max().unwrap_or(sizes[0]);
    let queues = SCHEMES.map(|scheme| sweep.spread(scheme, size, |outcome| outcome.max_queue).mean);
    let times = SCHEMES.map(|scheme| sweep.increase(scheme, size));
    let correlation = rank_correlation(&queues, &times);
    Claim {
        figure: "fig. 6".into(),
        says: "the longest queue correlates well with the completion time".into(),
        measured: format!(
            "rank correlation over the schemes {correlation:.2} at {} KiB",
            size >> 10
        ),
        verdict: Verdict::of(correlation > 0.8, "below 0.8"),
    }
}

/// Returns Spearman's rank correlation, for distinct values.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        values
            .iter()
            .map(|value| values.iter().filter(|other| *other < value).count() as f64)
            .collect()
    };
    let apart: f64 = ranks(a).iter().zip(ranks(b)).map(|(a, b)| (a - b).powi(2)).sum();
    let n = a.len() as f64;
    1.0 - 6.0 * apart / (n * (n * n - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_has_its_exponent_as_slope() {
        let points: Vec<(f64, f64)> =
            [1.0_f64, 2.0, 8.0].iter().map(|x| (x.ln(), (3.0 * x.powf(0.5)).ln())).collect();
        assert!((slope(&points) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn ranks_correlate_from_minus_one_to_one() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[2.0, 3.0, 4.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[4.0, 3.0, 2.0]), -1.0);
    }
}
