//! Figure 2: the queues of one ToR switch under random spraying and under round robin.

use super::setup::{MESSAGE, ProScheme, ProSetup, fabric, ideal, uncontrolled};
use super::trace::peaks;
use crate::{Axis, Claim, Effort, Figure, Kind, Series, Study, Verdict, run_all};
use braid_sim::probe::{self, Probe, Quantity};
use braid_sim::simulation::Simulation;
use braid_sim::switch::Policy;
use braid_sim::time::Ps;
use braid_sim::workload::{Groups, Workload, ring};

/// Number of servers below one ToR switch that send to as many below another.
const SENDERS: u32 = 61;
const PERCENTS: [f64; 2] = [50.0, 100.0];

/// Parameters that the paper does not give: the number of uplinks, and whether congestion control
/// acts.
#[derive(Clone, Copy, Debug)]
struct SprayingCase {
    uplinks: u32,
    controlled: bool,
}

const CASES: [SprayingCase; 3] = [
    SprayingCase { uplinks: 64, controlled: true },
    SprayingCase { uplinks: 61, controlled: true },
    SprayingCase { uplinks: 61, controlled: false },
];

/// The queues of the ToR switch over time, in bytes at each of [`PERCENTS`].
type TorQueues = Vec<(Ps, [u64; PERCENTS.len()])>;

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let bytes = if effort.quick { 400_000 } else { MESSAGE };
    let span = ideal(&fabric(2, SENDERS, SENDERS), &SprayingCase::workload(bytes));
    let policies = [Policy::Random, Policy::RoundRobin { permute: None }];
    let runs = policies.iter().flat_map(|policy| CASES.map(|case| (policy.clone(), case)));
    let queues = run_all("Fig. 2", runs.collect(), |(policy, case)| {
        case.measure(policy, bytes, effort.first_seed)
    });
    let (random, in_turn) = queues.split_at(CASES.len());
    for (id, what, queues) in
        [("fig02b", "random spraying", random), ("fig02c", "round robin", in_turn)]
    {
        study.figures.push(Figure {
            id: id.into(),
            title: format!("Queues of a ToR switch below 61 senders, {what}"),
            x: Axis::linear("time [us]"),
            y: Axis::linear("queue [KB]"),
            kind: Kind::Lines,
            series: CASES
                .iter()
                .zip(queues)
                .flat_map(|(case, queues)| case.lines(queues, span))
                .collect(),
        });
    }
    study.claims.push(random_claim(random));
    study.claims.push(in_turn_claim(in_turn));
    study.choices.push(format!(
        "Fig. 2: 61 servers below one ToR switch send {} MB each to 61 below another. How many \
            links up there are \
         the paper does not say: 64 (load 0.95) and 61 (load 1), the latter also without \
         congestion control, which \
         else acts from 100 KB.",
        bytes as f64 / 1e6
    ));
}

impl SprayingCase {
    fn name(self) -> String {
        let control = if self.controlled { "" } else { ", no CC" };
        format!("{} links up{control}", self.uplinks)
    }

    fn workload(bytes: u64) -> Workload {
        let pairs = (0..SENDERS).map(|low| vec![low, low + SENDERS]).collect();
        let groups = Groups::new(2 * SENDERS, pairs).expect("every server is in one pair");
        let both_ways = ring(&groups, bytes).expect("the message is of a possible length");
        let up = both_ways.messages.into_iter().filter(|message| message.src < SENDERS);
        up.collect::<Vec<_>>().into()
    }

    fn measure(self, policy: Policy, bytes: u64, seed: u64) -> TorQueues {
        let topology = fabric(2, SENDERS, self.uplinks);
        let ports = topology.uplinks(0).collect();
        let mut setup = ProSetup { policy: Some(policy), ..ProSetup::new(ProScheme::Ecmp, seed) };
        if !self.controlled {
            setup.cc = uncontrolled();
        }
        let mut simulation = Simulation::new(setup.plan(&topology, SprayingCase::workload(bytes)));
        let mut queues = TorQueues::new();
        let mut sorted = Vec::new();
        let every = Ps::from_nanos(100);
        let probe = Probe::new(every, Quantity::Queued, vec![ports], |at, _, queued| {
            sorted.clear();
            sorted.extend_from_slice(queued);
            sorted.sort_unstable();
            let rank = |percent: f64| (percent / 100.0 * sorted.len() as f64).ceil() as usize;
            queues.push((at, PERCENTS.map(|percent| sorted[rank(percent).max(1) - 1])));
        });
        let ran = probe::run(&mut simulation, &mut [probe]);
        ran.unwrap_or_else(|error| panic!("Fig. 2, {self:?}: {error}"));
        queues
    }

    fn lines(self, queues: &TorQueues, span: Ps) -> [Series; PERCENTS.len()] {
        [0, 1].map(|at| Series {
            name: format!("{}, {}", self.name(), if at == 0 { "median" } else { "longest" }),
            points: peaks(
                queues.iter().map(|(time, queued)| (*time, queued[at] as f64 / 1e3)),
                span,
            ),
        })
    }
}

/// Returns the longest queue of each case, in kilobytes.
fn longest(queues: &[TorQueues]) -> Vec<f64> {
    let of_case =
        |queues: &TorQueues| queues.iter().map(|(_, queued)| queued[1]).max().unwrap_or(0);
    queues.iter().map(|queues| of_case(queues) as f64 / 1e3).collect()
}

fn listed(longest: &[f64]) -> String {
    let parts =
        CASES.iter().zip(longest).map(|(case, most)| format!("{}: {most:.1} KB", case.name()));
    parts.collect::<Vec<_>>().join("; ")
}

fn random_claim(queues: &[TorQueues]) -> Claim {
    let longest = longest(queues);
    let most = longest.iter().copied().fold(0.0, f64::max);
    Claim {
        figure: "fig02".into(),
        says: "random spraying: the longest queue fluctuates, up to 400 KB".into(),
        measured: listed(&longest),
        verdict: Verdict::of(
            (200.0..=800.0).contains(&most),
            "how far queues wander depends on spare capacity, on the length of the messages and \
                on congestion \
             control, none of which the paper states",
        ),
    }
}

fn in_turn_claim(queues: &[TorQueues]) -> Claim {
    let longest = longest(queues);
    Claim {
        figure: "fig02".into(),
        says: "ideal round robin: the longest queue is below 40 KB".into(),
        measured: listed(&longest),
        verdict: Verdict::of(
            longest.iter().all(|most| *most < 40.0),
            "the round robin is not ideal",
        ),
    }
}
