//! Figure 11: round robin without a path set per destination, and without staggered queue pairs.

use super::outcome::{downlinks_by_tor, uplinks_by_tor};
use super::setup::{Pattern, ProScheme, ProSetup, ideal, paper_fabric};
use super::trace::peaks;
use crate::{Axis, Claim, Effort, Figure, Kind, Series, Study, Verdict, run_all};
use braid_sim::probe::{self, Probe, Quantity};
use braid_sim::simulation::Simulation;
use braid_sim::time::Ps;
use braid_sim::topology::{PortId, Topology};
use braid_sim::workload::{Groups, StartOrder, Workload, all_to_all};

/// Number of groups of an all-to-all in which each host sends to 31 others at once.
const GROUPS: u32 = 4;

/// The longest queue among equal links over time, at the ToR switch with the longest, in kilobytes.
struct QueueTrace {
    up: Readings,
    down: Readings,
}

type Readings = Vec<(Ps, f64)>;

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let topology = paper_fabric();
    let (tree_bytes, all_bytes) =
        if effort.quick { (200_000, 8_000) } else { (4_000_000, 130_000) };
    let seed = effort.first_seed;
    let tree = Pattern::TREE.workload(&topology, tree_bytes, seed);
    let all = Groups::strided(topology.hosts(), GROUPS)
        .and_then(|groups| all_to_all(&groups, all_bytes, StartOrder::Rotated))
        .expect("the groups divide the hosts");
    let cases = vec![
        (ProScheme::Pro, &tree),
        (ProScheme::NicRoundRobin, &tree),
        (ProScheme::Pro, &all),
        (ProScheme::QpRoundRobin, &all),
    ];
    let traces =
        run_all("Fig. 11", cases, |(scheme, workload)| trace(&topology, scheme, workload, seed));
    let figure =
        |id: &str, what: &str, workload: &Workload, lines: [(ProScheme, &Readings); 2]| Figure {
            id: id.into(),
            title: what.into(),
            x: Axis::linear("time [us]"),
            y: Axis::linear("longest queue [KB]"),
            kind: Kind::Lines,
            series: lines
                .map(|(scheme, readings)| Series {
                    name: scheme.name().into(),
                    points: peaks(readings.iter().copied(), ideal(&topology, workload)),
                })
                .into(),
        };
    study.figures.extend([
        figure(
            "fig11a",
            "Queues down to one ToR switch, tree",
            &tree,
            [(ProScheme::Pro, &traces[0].down), (ProScheme::NicRoundRobin, &traces[1].down)],
        ),
        figure(
            "fig11b",
            "Queues down to one ToR switch, all-to-all of 32",
            &all,
            [(ProScheme::Pro, &traces[2].down), (ProScheme::QpRoundRobin, &traces[3].down)],
        ),
        figure(
            "fig11c",
            "Queues up from one ToR switch, all-to-all of 32",
            &all,
            [(ProScheme::Pro, &traces[2].up), (ProScheme::QpRoundRobin, &traces[3].up)],
        ),
    ]);
    study.claims.push(destinations(&traces[0], &traces[1]));
    study.claims.push(orchestration(&traces[2], &traces[3]));
    study.choices.push(format!(
        "Fig. 11: the tree has 4 MB messages; the all-to-all is of four groups of 32 hosts, 31 \
            queue pairs at \
         once per host, {} KB each. Without destinations: one pointer per host. Without \
         orchestration: a \
         pointer per queue pair, all from the first path. The ToR switch shown is the one with \
         the longest queue.",
        all_bytes / 1000
    ));
}

fn trace(topology: &Topology, scheme: ProScheme, workload: &Workload, seed: u64) -> QueueTrace {
    let mut simulation =
        Simulation::new(ProSetup::new(scheme, seed).plan(topology, workload.clone()));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut probes = [
        longest(uplinks_by_tor(topology), &mut up),
        longest(downlinks_by_tor(topology), &mut down),
    ];
    probe::run(&mut simulation, &mut probes)
        .unwrap_or_else(|error| panic!("Fig. 11, {scheme:?}: {error}"));
    drop(probes);
    QueueTrace { up: worst(&up), down: worst(&down) }
}

/// Records the longest queue of each group.
fn longest(groups: Vec<Vec<PortId>>, into: &mut Vec<(Ps, usize, u64)>) -> Probe<'_> {
    Probe::new(Ps::from_nanos(500), Quantity::Queued, groups, |at, group, queued| {
        into.push((at, group, queued.iter().copied().max().unwrap_or(0)));
    })
}

/// Returns the readings of the group with the longest queue.
fn worst(readings: &[(Ps, usize, u64)]) -> Readings {
    let most = readings.iter().max_by_key(|(_, _, queued)| *queued).map(|(_, group, _)| *group);
    let of_it = readings.iter().filter(|(_, group, _)| Some(*group) == most);
    of_it.map(|(at, _, queued)| (*at, *queued as f64 / 1e3)).collect()
}

fn most(readings: &[(Ps, f64)]) -> f64 {
    readings.iter().map(|(_, queued)| *queued).fold(0.0, f64::max)
}

fn destinations(pro: &QueueTrace, without: &QueueTrace) -> Claim {
    let highest = without.down.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let at = highest.map_or(0.0, |(at, _)| at.as_micros_f64());
    Claim {
        figure: "fig11a".into(),
        says: "round robin without a path set per destination: the queues down to a ToR switch \
            grow and grow; \
               PRO's do not"
            .into(),
        measured: format!(
            "they grow to {:.0} KB within {at:.0} us, until marks cut the senders; PRO's longest \
                is {:.0} KB",
            most(&without.down),
            most(&pro.down)
        ),
        verdict: Verdict::of(
            most(&without.down) > 2.0 * most(&pro.down),
            "a host's two children rarely are below the same ToR switch, and marks stop the growth",
        ),
    }
}

fn orchestration(pro: &QueueTrace, without: &QueueTrace) -> Claim {
    let [up, down] = [(&pro.up, &without.up), (&pro.down, &without.down)]
        .map(|(pro, without)| (most(pro), most(without)));
    Claim {
        figure: "fig11b".into(),
        says: "round robin without staggered queue pairs: queues at ToR uplinks and on the way \
            down are less \
               balanced"
            .into(),
        measured: format!(
            "longest queue up {:.0} KB, PRO {:.0} KB; down {:.0} KB, PRO {:.0} KB",
            up.1, up.0, down.1, down.0
        ),
        verdict: Verdict::of(
            up.1 > up.0 && down.1 > down.0,
            "hosts that start together stay in step under either",
        ),
    }
}
