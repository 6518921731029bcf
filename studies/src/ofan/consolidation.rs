//! Section 7 and appendix F: pointers shared by destinations, their number and their schedules,
//! and OFAN's variants.

use std::collections::BTreeSet;

use super::failures::{self, Failures};
use super::scheme::OfanScheme::{
    self, HostDr, HostPkt, HostPktAr, Ofan, OfanShortest, OfanUnweighted, SwitchPkt, SwitchPktAr,
};
use super::setup::{OfanOutcome, OfanSetup, Traffic};
use super::sweep::Sweep;
use crate::{Claim, Effort, Study, Verdict};
use braid_lab::charts::{Axis, Figure, Kind, Point, Series};
use braid_sim::topology::{Node, PortId, Routes, Topology};
use braid_sim::workload::Pairs;

/// Number of permutations or failures that are drawn.
const DRAWS: u64 = 100;
/// The failure rates of the variant without weights.
const RATES: [f64; 2] = [0.01, 0.04];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    study.claims.push(pointers());
    study.claims.push(distinct_edges(effort));
    study.claims.push(weights_per_pod(effort));
    study.claims.push(from_shortest(effort));
    study.claims.push(without_weights(effort));
}

fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// Figure 18.
pub(super) fn larger_networks(effort: &Effort, study: &mut Study) {
    let arities: &[u32] = if effort.quick { &[4, 8] } else { &[4, 6, 8, 12, 16] };
    let make = |scheme, k, seed| OfanSetup {
        k,
        traffic: Traffic::Permutation(Pairs::InterPod),
        unlimited: true,
        ..OfanSetup::new(scheme, seed)
    };
    // The paper has 30 runs per size, of which 10 take a minute.
    let sweep = Sweep::run("Fig. 18", &[HostDr, Ofan], arities, effort.seeds(10), make);
    let ratios = |k: u32| -> Vec<f64> {
        let of = |scheme| sweep.values(scheme, k, |outcome| outcome.max_queue);
        of(Ofan).into_iter().zip(of(HostDr)).map(|(ofan, dr)| ofan / dr).collect()
    };
    let mean = |k: u32| {
        let ratios = ratios(k);
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let hosts = |k: u32| f64::from(k * k * k / 4);
    study.figures.push(Figure {
        id: "fig18".into(),
        title: "OFAN's longest queue over HOST DR's, inter-pod permutation of 1 MiB".into(),
        x: Axis::log("nodes"),
        y: Axis::linear("ratio of longest queues"),
        kind: Kind::Lines,
        series: vec![Series {
            name: "OFAN / HOST DR".into(),
            points: arities.iter().map(|k| Point::at(hosts(*k), &ratios(*k))).collect(),
        }],
    });
    let listed = arities.iter().map(|k| format!("{:.2} with {}", mean(*k), hosts(*k)));
    study.claims.push(claim(
        "fig. 18",
        "OFAN's longest queue over HOST DR's falls as the network grows",
        listed.collect::<Vec<_>>().join(", ") + " nodes",
        Verdict::of(
            arities.windows(2).all(|two| mean(two[1]) < mean(two[0])),
            "the ratio does not fall from each size to the next",
        ),
    ));
}

/// Section 7: an edge switch has a pointer for each other edge, an aggregation switch one for each
/// other pod.
fn pointers() -> Claim {
    let k = 8;
    let topology = OfanSetup { k, ..OfanSetup::new(Ofan, 1) }.topology();
    let edges: BTreeSet<u32> = topology.nics.iter().map(|nic| nic.edge).collect();
    let pods: BTreeSet<u32> =
        edges.iter().map(|edge| topology.switches[*edge as usize].pod).collect();
    let formula = |k: usize| (k * k / 2 - 1, k - 1);
    claim(
        "section 7",
        "with k = 64 an edge switch has 2K pointers for a packet size, an aggregation switch 63",
        format!(
            "{} and {}, as there are other edges and pods; with k = {k} the fabric has {} and {}",
            formula(64).0,
            formula(64).1,
            edges.len() - 1,
            pods.len() - 1
        ),
        Verdict::of(
            (edges.len() - 1, pods.len() - 1) == formula(k as usize) && formula(64) == (2047, 63),
            "the fabric has another number of edges or pods",
        ),
    )
}

/// Appendix F.3.
fn distinct_edges(effort: &Effort) -> Claim {
    let mean = |k: u32| {
        let setup = |seed| OfanSetup { k, ..OfanSetup::new(Ofan, seed) };
        let topology = setup(effort.first_seed).topology();
        let edge = |nic: u32| topology.nics[nic as usize].edge;
        let edges = f64::from(k * k / 2);
        let distinct = |seed| {
            let workload = setup(seed).workload(&topology);
            let pairs =
                workload.messages.iter().map(|message| (edge(message.src), edge(message.dst)));
            pairs.collect::<BTreeSet<_>>().len() as f64
        };
        let sum: f64 = (0..DRAWS).map(|run| distinct(effort.first_seed + run)).sum();
        sum / DRAWS as f64 / edges
    };
    let [usual, large] = [8, 16].map(mean);
    let near = |mean: f64, k: f64| (mean - (k / 2.0 - 0.25)).abs() < 0.125;
    claim(
        "app. F.3",
        "the hosts of an edge switch send to about k/2 - 1/4 different edge switches",
        format!(
            "{usual:.3} with k = 8 (3.75), {large:.3} with k = 16 (7.75), {DRAWS} permutations"
        ),
        Verdict::of(
            near(usual, 8.0) && near(large, 16.0),
            "the mean is off by more than an eighth",
        ),
    )
}

/// Appendix F.4: the weights towards all edges of a pod are the pod's, or zero.
fn weights_per_pod(effort: &Effort) -> Claim {
    let setup = |seed| OfanSetup::new(Ofan, seed);
    let topology = setup(effort.first_seed).topology();
    let workload = setup(effort.first_seed).workload(&topology);
    let failures = Failures { rate: 0.04, converge: Some(0.0) };
    let (mut groups, mut wrong) = (0, 0);
    for run in 0..DRAWS.min(if effort.quick { 10 } else { DRAWS }) {
        let damage = failures::draw(&topology, &workload, &failures, effort.first_seed + run);
        let routes = Routes::new(&topology, |port| !damage.cables.contains(&(port.cable() as u32)));
        let (all, bad) = compare_weights(&topology, &routes);
        (groups, wrong) = (groups + all, wrong + bad);
    }
    claim(
        "app. F.4",
        "the weights of an edge switch's ports towards an edge switch are those towards its pod, \
            where they are not zero, so that one schedule per pod is enough",
        format!("{wrong} of {groups} weights differ, with 4 % of the links failed"),
        Verdict::of(wrong == 0 && groups > 0, "weights differ between the edges of a pod"),
    )
}

/// Returns the number of comparisons between two edges of a pod, and how many of them differ.
/// Weights are compared as ratios between two ports that both lead on.
fn compare_weights(topology: &Topology, routes: &Routes) -> (usize, usize) {
    let firsts: Vec<(u32, u32)> = {
        let mut seen = BTreeSet::new();
        let nics = (0..).zip(&topology.nics);
        nics.filter(|(_, nic)| seen.insert(nic.edge)).map(|(host, nic)| (host, nic.edge)).collect()
    };
    let pod = |edge: u32| topology.switches[edge as usize].pod;
    let weight = |from: u32, to: u32, port: PortId| {
        routes.towards(from, to).iter().filter(|offered| **offered == port).count()
    };
    let (mut all, mut bad) = (0, 0);
    for (_, from) in &firsts {
        let ports: Vec<PortId> =
            topology.ports_of(Node::Switch(*from)).filter(|port| port.is_up()).collect();
        for (one, edge) in firsts.iter().filter(|(_, edge)| pod(*edge) != pod(*from)) {
            for (two, _) in
                firsts.iter().filter(|(_, other)| other > edge && pod(*other) == pod(*edge))
            {
                for pair in ports.windows(2) {
                    let [a, b] = [pair[0], pair[1]];
                    let weights = [(*one, a), (*one, b), (*two, a), (*two, b)]
                        .map(|(to, port)| weight(*from, to, port));
                    if weights.contains(&0) {
                        continue;
                    }
                    all += 1;
                    bad += usize::from(weights[0] * weights[3] != weights[1] * weights[2]);
                }
            }
        }
    }
    (all, bad)
}

/// Appendix F.4, the first variant.
fn from_shortest(effort: &Effort) -> Claim {
    let make = |scheme, (), seed| OfanSetup::new(scheme, seed);
    let schemes = [Ofan, OfanShortest];
    let sweep = Sweep::run("App. F.4", &schemes, &[()], effort.seeds(10), make);
    let [usual, variant] = schemes.map(|scheme| sweep.increase(scheme, ()));
    let queue = schemes.map(|scheme| sweep.spread(scheme, (), |outcome| outcome.max_queue).mean);
    claim(
        "app. F.4",
        "without failures pointers that start at the shortest queue and keep the order of the \
            ports are slightly better",
        format!(
            "{variant:.2} % for {usual:.2} %, longest queue {:.1} for {:.1} packets",
            queue[1], queue[0]
        ),
        Verdict::of(variant < usual, "they are not better in a permutation of 1 MiB"),
    )
}

/// Appendix F.4, the second variant.
fn without_weights(effort: &Effort) -> Claim {
    let make = |scheme, rate, seed| OfanSetup {
        failures: Failures { rate, converge: Some(0.0) },
        k: if effort.quick { 4 } else { 8 },
        ..OfanSetup::new(scheme, seed)
    };
    let existing = [HostPkt, SwitchPkt, HostPktAr, SwitchPktAr];
    let schemes: Vec<OfanScheme> = existing.into_iter().chain([Ofan, OfanUnweighted]).collect();
    let sweep = Sweep::run("App. F.4", &schemes, &RATES, effort.seeds(10), make);
    let of = |scheme, rate| sweep.spread(scheme, rate, OfanOutcome::increase).mean;
    let best = |rate| existing.iter().map(|scheme| of(*scheme, rate)).fold(f64::INFINITY, f64::min);
    let listed = RATES.map(|rate| {
        format!(
            "with {:.0} % of the links failed {:.2} %, with weights {:.2} %, the best existing \
                {:.2} %",
            100.0 * rate,
            of(OfanUnweighted, rate),
            of(Ofan, rate),
            best(rate)
        )
    });
    claim(
        "app. F.4",
        "under failures, OFAN without weights is slightly worse, and still better than existing \
            schemes",
        listed.join("; "),
        Verdict::of(
            RATES.iter().all(|rate| {
                let variant = of(OfanUnweighted, *rate);
                variant >= of(Ofan, *rate) && variant < best(*rate)
            }),
            "hosts send at the rate that fills the links if turns are weighted; without weights a \
                port with fewer routes behind it gets more than these carry, and its queue grows \
                for all of the message",
        ),
    )
}
