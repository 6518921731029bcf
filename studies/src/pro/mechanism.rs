//! Sections III, IV and VI: claims about the mechanism beside those of the figures.

use super::outcome::{ProOutcome, measure, uplinks_by_tor};
use super::setup::{Pattern, ProScheme, ProSetup, fabric, ideal, paper_fabric, uncontrolled};
use crate::{Claim, Effort, Study, Verdict, run_all};
use braid_sim::probe::{self, Probe, Quantity};
use braid_sim::simulation::Simulation;
use braid_sim::time::Ps;
use braid_sim::topology::{PortId, Topology};
use braid_sim::workload::{Groups, Message, StartOrder, Workload, all_to_all};

/// The advantage over ECMP in all-to-all (figure 7 b), and its tolerance.
const PAPERS_TIMES: [f64; 2] = [1.3, 1.48];
const NEAR: f64 = 0.1;
/// Slowdown that counts as near the optimum.
const OPTIMAL: f64 = 1.05;
/// Packets beyond PRO's degree that count as high reordering.
const REORDERED: u64 = 10;
/// Messages that each host sends on one queue pair.
const IN_ORDER: u64 = 8;

pub(super) fn add(effort: &Effort, study: &mut Study) {
    study.claims.push(odd_spans());
    study.claims.push(in_order(effort));
    study.claims.push(steady(effort));
}

/// Adds figure 7 b without the testbed.
pub(super) fn all_to_all_of_servers(effort: &Effort, study: &mut Study) {
    study.claims.extend(testbed(effort));
    study.choices.push(
        "Fig. 7 b in the simulator: 4 servers of 8 interfaces over 8 ToR and 8 aggregation \
            switches, all-to-all among the 32, one run per size; GPUs and their links are not \
            modelled."
            .into(),
    );
}

fn claim(figure: &str, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says: says.into(), measured, verdict }
}

/// Returns the number of paths that M packets take with this span (Algorithm 1, line 9).
fn paths_taken(paths: u32, span: u32) -> usize {
    let mut taken: Vec<u32> = (0..paths).map(|packet| packet * span % paths).collect();
    taken.sort_unstable();
    taken.dedup();
    taken.len()
}

fn odd_spans() -> Claim {
    let powers: Vec<u32> = (1..=10).map(|power| 1 << power).collect();
    let complete =
        |span: u32| powers.iter().all(|paths| paths_taken(*paths, span) == *paths as usize);
    let spans: Vec<u32> = (1..=255).collect();
    let whole = spans.iter().filter(|span| complete(**span)).count();
    let odd = spans.iter().filter(|span| **span % 2 == 1).count();
    claim(
        "alg. 1",
        "with an odd span and a power of two of paths, M packets take M different paths",
        format!(
            "{whole} of {odd} odd spans up to 255 do for all of 2 to 1024 paths; with span 2 and 8 \
                paths it is {}",
            paths_taken(8, 2)
        ),
        Verdict::of(whole == odd, "some span leaves a path out, or an even one does not"),
    )
}

/// Section III-C: packets land in any order, and messages complete in the order of posting.
fn in_order(effort: &Effort) -> Claim {
    let topology = paper_fabric();
    let bytes = if effort.quick { 20_000 } else { 100_000 };
    let one = Pattern::Ring.workload(&topology, bytes, effort.first_seed);
    let messages: Vec<Message> = one
        .messages
        .iter()
        .flat_map(|message| (0..IN_ORDER).map(move |_| message.clone()))
        .collect();
    let setup = ProSetup::new(ProScheme::Drill, effort.first_seed);
    let mut run = Simulation::new(setup.plan(&topology, Workload::from(messages)));
    run.run().unwrap_or_else(|error| panic!("in order: {error}"));
    let late = run.spans().chunks(IN_ORDER as usize);
    let late: usize = late
        .map(|spans| spans.windows(2).filter(|two| two[0].delivered > two[1].delivered).count())
        .sum();
    let counters = run.hosts.counters();
    claim(
        "section III-C",
        "packets are placed out of order, and messages complete in the order of posting",
        format!(
            "{IN_ORDER} messages on each of 128 queue pairs, sprayed by DRILL: {} of {} packets \
                out of order, {late} completions out of order",
            counters.out_of_order, counters.segments_received
        ),
        Verdict::of(
            late == 0 && counters.out_of_order > 0,
            "a message completes before an earlier one, or no packet is out of order",
        ),
    )
}

/// Lemma 4: the queues of the core reach a steady state within a period.
fn steady(effort: &Effort) -> Claim {
    let topology = paper_fabric();
    let bytes = if effort.quick { 1_000_000 } else { 4_000_000 };
    let workload = Pattern::Ring.workload(&topology, bytes, effort.first_seed);
    let end = ideal(&topology, &workload);
    let setup = ProSetup { cc: uncontrolled(), ..ProSetup::new(ProScheme::Pro, effort.first_seed) };
    let mut run = Simulation::new(setup.plan(&topology, workload));
    let up: Vec<PortId> = uplinks_by_tor(&topology).concat();
    let mut quarters = [(0.0, 0_u32); 4];
    let reader = |at: Ps, _: usize, queued: &[u64]| {
        let mean = queued.iter().sum::<u64>() as f64 / queued.len() as f64;
        let quarter = (4 * at.0 / end.0).min(4) as usize;
        if let Some((sum, readings)) = quarters.get_mut(quarter) {
            (*sum, *readings) = (*sum + mean, *readings + 1);
        }
    };
    let probe = Probe::new(Ps::from_nanos(500), Quantity::Queued, vec![up], reader);
    probe::run(&mut run, &mut [probe]).unwrap_or_else(|error| panic!("steady: {error}"));
    let means = quarters.map(|(sum, readings)| sum / f64::from(readings.max(1)) / 1062.0);
    let [_, second, third, _] = means;
    claim(
        "lemma 4",
        "the distribution of queues does not change once a period has passed",
        format!(
            "mean queue of all ToR uplinks by quarter of the run, in packets: {}",
            means.map(|mean| format!("{mean:.2}")).join(", ")
        ),
        Verdict::of(
            (third / second - 1.0).abs() < 0.1,
            "it still changes in the middle of the run",
        ),
    )
}

fn testbed(effort: &Effort) -> [Claim; 2] {
    let sizes: [u64; 2] = if effort.quick { [250_000, 1_000_000] } else { [8_000_000, 67_000_000] };
    let topology = fabric(8, 4, 8);
    let schemes = [ProScheme::Ecmp, ProScheme::Pro];
    let cases: Vec<(u64, ProScheme)> =
        sizes.iter().flat_map(|bytes| schemes.map(|scheme| (*bytes, scheme))).collect();
    let slowdowns = run_all("Fig. 7 b", cases, |(bytes, scheme)| {
        let workload = every_pair(&topology, 1, bytes / u64::from(topology.hosts() - 1));
        run(&topology, scheme, workload, effort.first_seed).slowdown
    });
    let times: Vec<f64> = slowdowns.chunks(2).map(|pair| pair[0] / pair[1]).collect();
    let listed: Vec<String> = sizes
        .iter()
        .zip(slowdowns.chunks(2))
        .map(|(bytes, pair)| {
            format!("{} MB: ECMP {:.2}, PRO {:.2}", *bytes as f64 / 1e6, pair[0], pair[1])
        })
        .collect();
    let (large, measured) = (times[1], listed.join("; "));
    let sized = |holds: bool, why: &str| match effort.quick {
        true => Verdict::NotJudged("--quick has messages of a thousandth".into()),
        false => Verdict::of(holds, why),
    };
    [
        claim(
            "fig07b",
            "all-to-all's slowdown is 1.3 to 1.48 times better than ECMP's, 32 interfaces of 4 \
                servers (in the simulator)",
            format!("slowdowns with {measured}"),
            sized(
                (PAPERS_TIMES[0] - NEAR..=PAPERS_TIMES[1] + NEAR).contains(&large),
                "the four interfaces of a ToR switch have eight links up here, so that 31 flows \
                    each hardly collide; how NCCL orders its all-to-all, and how the testbed's \
                    interfaces are cabled, is unstated",
            ),
        ),
        claim(
            "fig07b",
            "PRO's slowdown is near the optimum for large messages (in the simulator)",
            format!("{:.3} at {} MB", slowdowns[3], sizes[1] as f64 / 1e6),
            sized(slowdowns[3] <= OPTIMAL, "marks on the links to hosts cut flows"),
        ),
    ]
}

/// Returns an all-to-all in groups, of `bytes` per pair.
fn every_pair(topology: &Topology, groups: u32, bytes: u64) -> Workload {
    Groups::strided(topology.hosts(), groups)
        .and_then(|groups| all_to_all(&groups, bytes, StartOrder::Rotated))
        .expect("the groups divide the hosts")
}

fn run(topology: &Topology, scheme: ProScheme, workload: Workload, seed: u64) -> ProOutcome {
    let plan = ProSetup::new(scheme, seed).plan(topology, workload);
    measure(plan, false).unwrap_or_else(|error| panic!("{scheme:?}, seed {seed}: {error}"))
}

/// Judges section VI-B: ECMP collides more in a larger topology.
pub(super) fn larger_fabrics(effort: &Effort, study: &mut Study) {
    let bytes = if effort.quick { 250_000 } else { 4_000_000 };
    let fabrics = [fabric(8, 4, 4), paper_fabric()];
    let cases: Vec<(usize, u64)> =
        (0..2).flat_map(|at| effort.seeds(3).map(move |seed| (at, seed))).collect();
    let slowdowns = run_all("Fig. 8, ECMP", cases.clone(), |(at, seed)| {
        let workload = Pattern::Ring.workload(&fabrics[at], bytes, seed);
        run(&fabrics[at], ProScheme::Ecmp, workload, seed).slowdown
    });
    let mean = |which: usize| {
        let here = cases.iter().zip(&slowdowns).filter(|((at, _), _)| *at == which);
        let values: Vec<f64> = here.map(|(_, slowdown)| *slowdown).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    study.claims.push(claim(
        "fig08",
        "ECMP has more severe collisions in the larger topology of the simulation than on 4 \
            servers",
        format!("ring, ECMP's slowdown: {:.2} with 32 hosts, {:.2} with 128", mean(0), mean(1)),
        Verdict::of(mean(1) > mean(0), "it is as slow in the small one"),
    ));
}

/// Judges figure 11 b: queue pairs that are not staggered, by their number.
pub(super) fn more_queue_pairs(effort: &Effort, study: &mut Study) {
    let topology = paper_fabric();
    let bytes = if effort.quick { 200_000 } else { 2_000_000 };
    let groups = [16, 4];
    let cases: Vec<(u32, ProScheme)> = groups
        .iter()
        .flat_map(|groups| {
            [ProScheme::Pro, ProScheme::QpRoundRobin].map(|scheme| (*groups, scheme))
        })
        .collect();
    let outcomes = run_all("Fig. 11 b", cases, |(groups, scheme)| {
        let others = u64::from(topology.hosts() / groups - 1);
        run(&topology, scheme, every_pair(&topology, groups, bytes / others), effort.first_seed)
    });
    // The 99th percentile.
    let degrees = outcomes.chunks(2).map(|pair| [pair[0].disorder[4], pair[1].disorder[4]]);
    let queues = outcomes.chunks(2).map(|pair| {
        [
            pair[0].uplink_queue.max(pair[0].downlink_queue),
            pair[1].uplink_queue.max(pair[1].downlink_queue),
        ]
    });
    let (degrees, queues): (Vec<[u64; 2]>, Vec<[u32; 2]>) = (degrees.collect(), queues.collect());
    let text = |at: usize, pairs: u32| {
        format!(
            "{pairs} queue pairs per host: longest queue {} packets, PRO {}; out of order at the \
                99th percentile {}, PRO {}",
            queues[at][1], queues[at][0], degrees[at][1], degrees[at][0]
        )
    };
    study.claims.push(claim(
        "fig11b",
        "uncoordinated queue pairs are worse the more there are, and cause high reordering",
        format!("{}; {}", text(0, 7), text(1, 31)),
        Verdict::of(
            queues[1][1] > queues[0][1] && degrees[1][1] > degrees[1][0] + REORDERED,
            "their queues are longer with more, but those of equal paths grow alike, so that few \
                packets overtake others",
        ),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_span_takes_every_path_and_an_even_one_does_not() {
        assert_eq!([1, 3, 5, 7].map(|span| paths_taken(8, span)), [8; 4]);
        assert_eq!([2, 4, 6].map(|span| paths_taken(8, span)), [4, 2, 4]);
    }
}
