//! Appendices C and D: flows that stay together on a link down to an edge switch.

use std::collections::BTreeSet;

use super::scheme::OfanScheme::{self, Jsq, Rsq, SimpleRr};
use super::setup::{LAYERS, OfanSetup};
use super::sweep::Sweep;
use crate::{Claim, Effort, Study, Verdict, run_all};
use braid_sim::probe::{Probe, Quantity};
use braid_sim::time::Ps;
use braid_sim::topology::PortId;

/// Bytes of a full frame with the gap, and of the gap.
const CYCLE: f64 = 4178.0;
const GAP: f64 = 20.0;
/// Factor by which a number may differ from a model that "closely" matches.
const CLOSE: f64 = 1.35;
/// Number of permutations that are drawn for a probability.
const DRAWS: u64 = 200;

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let arities: &[u32] = if effort.quick { &[4, 6] } else { &[4, 6, 8, 12] };
    let make = |scheme, k, seed| OfanSetup { k, paced: true, ..unlimited(scheme, seed) };
    let sweep = Sweep::run("App. C", &[SimpleRr, Jsq], arities, effort.seeds(10), make);
    study.claims.extend(collisions(&sweep, arities));
    study.claims.push(without_internal_traffic(effort));
    study.claims.push(square_root(effort));
    study.choices.push(
        "Appendix C: collisions are pairs of flows on a link from an aggregation to an edge \
            switch, whose number follows from the link's bytes; hosts are paced, messages of 1 \
            MiB, and queues have no limit."
            .into(),
    );
}

fn unlimited(scheme: OfanScheme, seed: u64) -> OfanSetup {
    OfanSetup { unlimited: true, ..OfanSetup::new(scheme, seed) }
}

fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// Returns the expected number of colliding pairs (equations 18 and 19, and 13 if `safe`).
fn model(k: u32, safe: bool) -> f64 {
    let k = f64::from(k);
    let (n, half) = (k.powi(3) / 4.0, k / 2.0);
    let steps = || (0..half as u32).map(f64::from);
    let northbound: f64 = steps().map(|i| (n - half - i) / (n - 1.0 - i)).product();
    let hotspot: f64 = (n - half) / (n - 1.0)
        * steps().skip(1).map(|i| (half - i) / (n - 1.0 - i)).product::<f64>();
    let stays = if safe { (1.0 - 2.0 * GAP / CYCLE).powf(half - 1.0) } else { 1.0 };
    let pair =
        ((northbound - hotspot) * stays).powi(2) * (1.0 / half) * (half - 1.0) / (n - 1.0 - half);
    n * (n - 1.0) / 2.0 * pair
}

fn collisions(sweep: &Sweep<u32>, arities: &[u32]) -> [Claim; 3] {
    let of = |scheme, k| sweep.spread(scheme, k, |outcome| outcome.collisions).mean;
    let listed = |of: &dyn Fn(u32) -> String| {
        arities.iter().map(|k| format!("k = {k}: {}", of(*k))).collect::<Vec<_>>().join(", ")
    };
    let certain = |k| {
        let runs = sweep.values(SimpleRr, k, |outcome| outcome.collisions);
        runs.iter().filter(|pairs| **pairs > 0.0).count() as f64 / runs.len() as f64
    };
    let last = arities[arities.len() - 1];
    let near = |measured: f64, model: f64| (1.0 / CLOSE..=CLOSE).contains(&(measured / model));
    [
        claim(
            "app. C",
            "SIMPLE RR has more pairs of flows that collide for good than JSQ",
            listed(&|k| format!("{:.1} and {:.1}", of(SimpleRr, k), of(Jsq, k))),
            Verdict::of(
                arities.iter().all(|k| of(SimpleRr, *k) > of(Jsq, *k)),
                "JSQ has as many at one size",
            ),
        ),
        claim(
            "app. C",
            "the probability that some flows collide for good goes to 1 as switches grow",
            listed(&|k| format!("{:.0} % of the runs", 100.0 * certain(k))),
            Verdict::of(certain(last) == 1.0, "some run of the largest size has no collision"),
        ),
        claim(
            "fig. 16",
            "the model's number of colliding pairs closely matches simulations",
            listed(&|k| {
                let [rr, jsq] = [(SimpleRr, false), (Jsq, true)]
                    .map(|(scheme, safe)| (of(scheme, k), model(k, safe)));
                format!("SIMPLE RR {:.1} for {:.1}, JSQ {:.1} for {:.1}", rr.0, rr.1, jsq.0, jsq.1)
            }),
            Verdict::of(
                [(SimpleRr, false), (Jsq, true)]
                    .iter()
                    .all(|(scheme, safe)| near(of(*scheme, last), model(last, *safe))),
                format!(
                    "with k = {last} a number is off by more than {CLOSE} times: fewer flows stay \
                        with one link for all of a message than the model has. Hosts start in one \
                        instant here, so that under JSQ packets that arrive together meet equal \
                        queues and choose anew"
                ),
            ),
        ),
    ]
}

/// Returns the share of edge switches without a flow between two of their own hosts.
fn without_internal(k: u32, first_seed: u64) -> f64 {
    let setup = |seed| OfanSetup { k, ..OfanSetup::new(SimpleRr, seed) };
    let topology = setup(first_seed).topology();
    let edge = |nic: u32| topology.nics[nic as usize].edge;
    let edges = topology.nics.iter().map(|nic| nic.edge).collect::<BTreeSet<u32>>().len();
    let internal = |seed| {
        let workload = setup(seed).workload(&topology);
        let within =
            workload.messages.iter().filter(|message| edge(message.src) == edge(message.dst));
        within.map(|message| edge(message.src)).collect::<BTreeSet<u32>>().len()
    };
    let sum: usize = (0..DRAWS).map(|run| internal(first_seed + run)).sum();
    1.0 - sum as f64 / (DRAWS as usize * edges) as f64
}

fn without_internal_traffic(effort: &Effort) -> Claim {
    let [small, usual] = [4, 8].map(|k| without_internal(k, effort.first_seed));
    let least = |k: f64| 1.0 - (k - 2.0) / (k * k - 2.0);
    claim(
        "app. D",
        "an edge switch has no internal traffic with a probability of at least 1 - (k - 2) / (k^2 \
            - 2), 6/7 with k = 4",
        format!(
            "{:.1} % with k = 4 (bound {:.1} %), {:.1} % with k = 8 ({:.1} %), over {DRAWS} \
                permutations",
            100.0 * small,
            100.0 * least(4.0),
            100.0 * usual,
            100.0 * least(8.0)
        ),
        // A share of 200 draws of 8 edges has a standard error of 1 %.
        Verdict::of(
            small > least(4.0) - 0.03 && usual > least(8.0) - 0.03,
            "the share is below the bound",
        ),
    )
}

/// Judges equation 21: the mean queue of an uplink after m packets of random spraying.
fn square_root(effort: &Effort) -> Claim {
    let bytes = if effort.quick { 1 << 20 } else { 4 << 20 };
    let at = Ps::from_nanos(bytes / 4096 * 4178 * 8 / 800);
    let jobs: Vec<u64> = effort.seeds(3).collect();
    let means = run_all("App. D", jobs, |seed| {
        let setup = OfanSetup { bytes, ..unlimited(Rsq, seed) };
        let topology = setup.topology();
        let (_, up) = LAYERS[0];
        let ports = topology.ports().filter(|port| topology.layer(*port) == up);
        let ports: Vec<PortId> = ports.collect();
        let mut mean = None;
        let reader = |_, _: usize, queued: &[u64]| {
            let sum: u64 = queued.iter().sum();
            mean.get_or_insert(sum as f64 / queued.len() as f64 / 4158.0);
        };
        setup.observe(Vec::new(), &mut [Probe::new(at, Quantity::Queued, vec![ports], reader)]);
        mean.unwrap_or(0.0)
    });
    let measured = means.iter().sum::<f64>() / means.len() as f64;
    let packets = bytes as f64 / 4096.0;
    let half = 4.0_f64;
    let model = ((1.0 - 1.0 / half) * 2.0 / std::f64::consts::PI * packets).sqrt();
    claim(
        "app. D",
        "after m packets an uplink of RSQ holds sqrt(1 - 2/k) sqrt(2/pi) sqrt(m) packets",
        format!("{measured:.1} packets after {packets:.0}, the model {model:.1}"),
        Verdict::of(
            (1.0 / CLOSE..=CLOSE).contains(&(measured / model)),
            "hosts share their links with acknowledgements, and some flows stay below their edge, \
                so that uplinks are not full",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 nodes: an edge switch has two flows, and P(northbound) = 14/15 13/14.
    #[test]
    fn the_model_is_the_papers_formula() {
        let (northbound, hotspot) = (13.0 / 15.0, 14.0 / 15.0 / 14.0);
        let expected = 120.0 * f64::powi(northbound - hotspot, 2) * 0.5 / 13.0;
        assert!((model(4, false) - expected).abs() < 1e-9);
        assert!(model(4, true) < model(4, false));
    }
}
