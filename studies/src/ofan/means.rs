//! The mean queue of all switches (theorems 1 to 4), and by layer (figures 17 and 19).

use std::ops::Range;

use super::growth::slope;
use super::scheme::OfanScheme::{self, *};
use super::setup::{LAYERS, OfanSetup};
use crate::{Claim, Effort, Study, Verdict, run_all};
use braid_sim::probe::{Probe, Quantity};
use braid_sim::time::Ps;
use braid_sim::topology::{Layer, PortId, Tier};

/// The layers of queues in switches, from the source's edge to the destination.
const QUEUES: [Layer; 5] = [
    LAYERS[0].1,
    LAYERS[1].1,
    LAYERS[2].1,
    LAYERS[3].1,
    Layer { from: Tier::Edge, to: Tier::Host },
];
/// Bytes of a full frame.
const FRAME: f64 = 4158.0;

/// A scheme, whether hosts are paced, and the exponents that agree with its theorem.
type Growth = (OfanScheme, bool, Range<f64>);

const GROWTH: [Growth; 6] = [
    (SimpleRr, true, 0.8..1.2),
    (Jsq, true, 0.8..1.2),
    (Rsq, false, 0.35..f64::INFINITY),
    (HostPkt, false, 0.35..f64::INFINITY),
    (HostDr, false, -0.15..0.15),
    (Ofan, false, -0.15..0.15),
];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    study.claims.push(growth(effort));
    study.claims.extend(layers(effort));
    study.choices.push(
        "Mean queues are read every 0.25 us over all ports of a layer until the end of the run, \
            in full packets, the one that is being sent included. Figs. 17 and 19: the models are \
            the exact mean of N D/D/1 with the paper's numbers of flows or pointers, rounded; 1 \
            run."
            .into(),
    );
}

/// Returns the mean queue by layer, over all ports and the time of the run.
fn mean_queues(setup: &OfanSetup) -> [f64; 5] {
    let topology = setup.topology();
    let of_layer = |layer: &Layer| -> Vec<PortId> {
        topology.ports().filter(|port| topology.layer(*port) == *layer).collect()
    };
    let mut sums = [(0.0, 0); 5];
    let reader = |_, layer: usize, queued: &[u64]| {
        let mean = queued.iter().sum::<u64>() as f64 / queued.len() as f64;
        sums[layer] = (sums[layer].0 + mean / FRAME, sums[layer].1 + 1);
    };
    let groups = QUEUES.iter().map(of_layer).collect();
    let probe = Probe::new(Ps::from_nanos(250), Quantity::Queued, groups, reader);
    setup.observe(Vec::new(), &mut [probe]);
    sums.map(|(sum, readings)| sum / f64::from(readings.max(1)))
}

fn growth(effort: &Effort) -> Claim {
    let sizes: &[u64] = match effort.quick {
        true => &[64 << 10, 256 << 10, 1 << 20],
        false => &[64 << 10, 256 << 10, 1 << 20, 4 << 20],
    };
    let jobs: Vec<(usize, u64)> =
        (0..GROWTH.len()).flat_map(|row| sizes.iter().map(move |bytes| (row, *bytes))).collect();
    let seed = effort.first_seed;
    let means = run_all("mean queues", jobs, |(row, bytes)| {
        let (scheme, paced, _) = GROWTH[row].clone();
        let setup = OfanSetup { bytes, paced, unlimited: true, ..OfanSetup::new(scheme, seed) };
        mean_queues(&setup).iter().sum::<f64>() / 5.0
    });
    let exponents = means.chunks(sizes.len()).map(|means| {
        let points = sizes.iter().zip(means).map(|(size, mean)| ((*size as f64).ln(), mean.ln()));
        slope(&points.collect::<Vec<_>>())
    });
    let exponents: Vec<f64> = exponents.collect();
    let listed = GROWTH.iter().zip(&exponents);
    let text = listed.map(|((scheme, ..), exponent)| format!("{} {exponent:.2}", scheme.name()));
    let off = GROWTH.iter().zip(&exponents);
    let off = off.filter(|((_, _, expected), exponent)| !expected.contains(exponent));
    let off: Vec<&str> = off.map(|((scheme, ..), _)| scheme.name()).collect();
    Claim {
        figure: "theorems 1 to 4".into(),
        says:
            "the mean queue of all switches grows linearly with SIMPLE RR and JSQ, as the square \
            root at least with RSQ and HOST PKT, and not with HOST DR and OFAN"
                .into(),
        measured: format!("exponents: {}", text.collect::<Vec<_>>().join(", ")),
        verdict: Verdict::of(
            off.is_empty(),
            format!(
                "{}: short messages end before the queues of the last layers have formed, so that \
                    means of all layers over the whole run grow in another way than the longest \
                    queue",
                off.join(", ")
            ),
        ),
    }
}

/// Returns the mean number in an N D/D/1 system with N flows of this period, by Little's law. An
/// arrival waits for the work of N - 1 others, whose mean is known (Roberts and Virtamo, 1991).
fn periodic(flows: u32, period: f64) -> f64 {
    let others = flows - 1;
    let count = f64::from(others);
    let exceeds = |x: f64| -> f64 {
        let first = x.floor() as u32 + 1;
        let terms = (first..=others).map(|n| {
            let (n, choices) = (f64::from(n), binomial(others, n));
            let share = (n - x) / period;
            let idle = (period - count + x) / (period - n + x);
            choices * share.powf(n) * (1.0 - share).powf(count - n) * idle
        });
        terms.sum()
    };
    let step = 0.001;
    let steps = (count / step) as u32;
    let wait: f64 = (0..steps).map(|i| exceeds((f64::from(i) + 0.5) * step) * step).sum();
    f64::from(flows) / period * (1.0 + wait)
}

fn binomial(n: u32, k: u32) -> f64 {
    (1..=k).map(|i| f64::from(n - k + i) / f64::from(i)).product()
}

/// Returns the model's queues up: edge to aggregation, aggregation to core.
fn models(scheme: OfanScheme, k: u32) -> [f64; 2] {
    let (half, n) = (f64::from(k / 2), f64::from(k * k * k / 4));
    let flows = half * (1.0 - (half - 1.0) / (n - 1.0));
    let pod = half * half;
    let leaving = pod * (1.0 - (pod - 1.0) / (n - 1.0));
    let pointers = match scheme {
        Ofan => [half - 0.25, f64::from(k - 1)],
        _ => [flows, leaving],
    };
    let loads = [flows / half, leaving / pod];
    [0, 1].map(|layer: usize| {
        let flows = pointers[layer].round();
        periodic(flows as u32, flows / loads[layer])
    })
}

/// Relative tolerance of "very close" and of "close".
const VERY_CLOSE: f64 = 0.25;
const CLOSE: f64 = 0.5;

/// Judges figures 17 and 19.
fn layers(effort: &Effort) -> [Claim; 2] {
    let (k, bytes) = if effort.quick { (8, 256 << 10) } else { (16, 4 << 20) };
    let seed = effort.first_seed;
    let queues = run_all("Figs. 17, 19", vec![HostDr, Ofan], |scheme| {
        mean_queues(&OfanSetup { k, bytes, unlimited: true, ..OfanSetup::new(scheme, seed) })
    });
    let text = |queues: [f64; 5], [edge, core]: [f64; 2]| {
        let [a, b, c, d, e] = queues;
        format!(
            "{} nodes, mean packets: edge to agg {a:.2} (model {edge:.2}), agg to core {b:.2} \
                ({core:.2}), core to agg {c:.2} ({core:.2}), agg to edge {d:.2} ({edge:.2}), edge \
                to host {e:.2}",
            k * k * k / 4
        )
    };
    let near = |queue: f64, model: f64, tolerance: f64| (queue / model - 1.0).abs() <= tolerance;
    let (dr, ofan) = (queues[0], queues[1]);
    let [dr_model, ofan_model] = [HostDr, Ofan].map(|scheme| models(scheme, k));
    let apart = "the mean holds the start and the end of the run, in which queues are empty, and \
        the paper's models are approximations of N D/D/1 that it does not print";
    [
        Claim {
            figure: "fig. 17".into(),
            says:
                "HOST DR's mean queues: the N D/D/1 model is very close from edge to aggregation, \
                pessimistic to and from the core, and near on the way down to hosts"
                    .into(),
            measured: text(dr, dr_model),
            verdict: Verdict::of(
                near(dr[0], dr_model[0], VERY_CLOSE)
                    && dr[1].max(dr[2]) <= dr_model[1]
                    && near(dr[3], dr_model[0], CLOSE),
                apart,
            ),
        },
        Claim {
            figure: "fig. 19".into(),
            says: "OFAN's mean queues: the model holds well from edge to aggregation, less well \
                beyond"
                .into(),
            measured: text(ofan, ofan_model),
            verdict: Verdict::of(near(ofan[0], ofan_model[0], VERY_CLOSE), apart),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows of a period of four packets: in a quarter of the draws a packet meets the other
    /// flow's in service, and waits for half of it on average.
    #[test]
    fn two_periodic_flows_wait_for_half_a_packet_in_a_quarter_of_the_draws() {
        let expected = 0.5 * (1.0 + 0.125);
        assert!((periodic(2, 4.0) - expected).abs() < 1e-3, "{}", periodic(2, 4.0));
    }
}
