//! PRO on the hosts that ship, and the curve over the packets per path pick.

use braid_cc::CcConfig;
use braid_sim::topology::Topology;
use braid_sim::workload::{Groups, StartOrder, Workload, all_to_all};

use super::outcome::{ProOutcome, measure};
use super::setup::{Pattern, ProScheme, ProSetup, paper_fabric};
use crate::Effort;
use crate::shipped::{Experiments, Metric, Product, Table};

/// Maximum runs per point.
const SEEDS: u32 = 3;
/// Packets per path pick. 8 is the batch in PRO's text, 48 the engine's default. For the engine 64
/// are 61, a batch of 64 KiB.
const PICKS: [u32; 7] = [1, 4, 8, 16, 32, 48, 64];
/// The rate that leaves the acknowledgements as much of each link as in the paper.
const PACED: &str = "rate:188G";
/// Number of groups of the all-to-all.
const GROUPS: u32 = 4;

const QUANTITIES: [Metric<ProOutcome>; 5] = [
    ("slowdown", |run| run.slowdown),
    ("longest ToR uplink queue [packets]", |run| f64::from(run.uplink_queue)),
    ("reordering extent, p99 [packets]", |run| run.disorder[P99] as f64),
    ("marks", |run| (run.marks_at_tors + run.marks_at_aggs) as f64),
    ("retransmissions", |run| run.resent as f64),
];
/// The place of the 99th percentile in [`super::outcome::PERCENTILES`].
const P99: usize = 4;

pub(crate) fn shipped(effort: &Effort) -> Vec<Table> {
    let (ring, all) = if effort.quick { (1_000_000, 8_000) } else { (4_000_000, 128_000) };
    vec![compared(effort, ring, all), curve(effort, ring), destinations(effort, all)]
}

/// The traffic of a run.
#[derive(Clone, Copy)]
enum ShippedTraffic {
    /// Bytes of a message.
    Ring(u64),
    AllToAll(u64),
}

impl ShippedTraffic {
    fn workload(self, topology: &Topology, seed: u64) -> Workload {
        match self {
            ShippedTraffic::Ring(bytes) => Pattern::Ring.workload(topology, bytes, seed),
            ShippedTraffic::AllToAll(bytes) => Groups::strided(topology.hosts(), GROUPS)
                .and_then(|groups| all_to_all(&groups, bytes, StartOrder::Rotated))
                .expect("the groups divide the hosts"),
        }
    }

    fn run(self, setup: &ProSetup) -> ProOutcome {
        let topology = paper_fabric();
        let workload = self.workload(&topology, setup.seed);
        measure(setup.plan(&topology, workload), false)
            .unwrap_or_else(|error| panic!("as shipped, {setup:?}: {error}"))
    }
}

fn compared(effort: &Effort, ring: u64, all: u64) -> Table {
    let experiments = Experiments {
        title: format!(
            "PRO's fabric: a ring of {} MB over 128 hosts, and an all-to-all of {} KB in four \
             groups of 32. The paper's policies are PRO, DCQCN and PRO's out-of-order window; \
             as shipped, a path is picked for 48 packets, and a path set belongs to a host, not to \
             a ToR switch. The ideal has an acknowledgement per packet, of which \
             the product sends one per 32",
            ring as f64 / 1e6,
            all as f64 / 1e3
        ),
        cases: vec![
            ("ring".into(), ShippedTraffic::Ring(ring)),
            ("all-to-all".into(), ShippedTraffic::AllToAll(all)),
        ],
        quantities: &QUANTITIES,
        seeds: effort.seeds(SEEDS).collect(),
    };
    experiments.by_product(|traffic, product, seed| {
        traffic.run(&ProSetup { product, ..ProSetup::new(ProScheme::Pro, seed) })
    })
}

fn curve(effort: &Effort, ring: u64) -> Table {
    let base = ProSetup::new(ProScheme::Pro, 0);
    let paced: CcConfig = PACED.parse().expect("the name of a controller");
    let hosts = [
        ("defaults".to_owned(), ProSetup { product: Product::Defaults, ..base.clone() }),
        (
            format!("shipped, `pro`, `{PACED}`"),
            ProSetup { product: Product::PaperPolicies, cc: paced, ..base.clone() },
        ),
        (
            "shipped, `pro`, `dcqcn`".to_owned(),
            ProSetup { product: Product::PaperPolicies, ..base.clone() },
        ),
        ("the paper's hosts".to_owned(), base),
    ];
    let points = hosts.into_iter().flat_map(|(name, setup)| {
        PICKS.map(|packets| {
            let setup = ProSetup { quantum: Some(packets), ..setup.clone() };
            (format!("{name}, {packets}"), setup)
        })
    });
    let ecmp = ("ECMP, the paper's hosts".to_owned(), ProSetup::new(ProScheme::Ecmp, 0));
    let experiments = Experiments {
        title: format!("The ring of {} MB by packets per path pick", ring as f64 / 1e6),
        cases: points.chain([ecmp]).collect(),
        quantities: &QUANTITIES,
        seeds: effort.seeds(SEEDS).collect(),
    };
    experiments.by_case("packets per pick", |setup, seed| {
        ShippedTraffic::Ring(ring).run(&ProSetup { seed, ..setup.clone() })
    })
}

/// Runs the all-to-all with path sets per ToR switch or per host.
fn destinations(effort: &Effort, all: u64) -> Table {
    let base = ProSetup::new(ProScheme::Pro, 0);
    let hosts = [("defaults", Product::Defaults), ("the paper's hosts", Product::Paper)];
    let sharings = [("ToR switch", true), ("host", false)];
    let cases = hosts.into_iter().flat_map(|(name, product)| {
        let (base, picks) = (base.clone(), [1, 8, 48]);
        sharings.into_iter().flat_map(move |(place, per_tor)| {
            let base = ProSetup { product, per_tor: Some(per_tor), ..base.clone() };
            picks.map(|packets| {
                let setup = ProSetup { quantum: Some(packets), ..base.clone() };
                (format!("{place}, {name}, {packets}"), setup)
            })
        })
    });
    let experiments = Experiments {
        title: format!(
            "The all-to-all of {} KB by the destinations that share a path set and by packets per \
             path pick. The hosts that ship have a destination group for each ToR switch",
            all as f64 / 1e3
        ),
        cases: cases.collect(),
        quantities: &QUANTITIES,
        seeds: effort.seeds(SEEDS).collect(),
    };
    experiments.by_case("path set per", |setup, seed| {
        ShippedTraffic::AllToAll(all).run(&ProSetup { seed, ..setup.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_per_pick_is_the_paper_and_a_batch_is_not() {
        let tables = shipped(&Effort::QUICK);
        let [compared, curve, destinations] = &tables[..] else { panic!("{tables:?}") };
        let slowdown = |column: &str| compared.mean("ring: slowdown", column);
        assert!(slowdown("as in the paper") < 1.03, "{compared:?}");
        assert!(slowdown("as shipped, the paper's policies") > 1.1, "{compared:?}");
        let queue = |point: &str| curve.mean(point, "longest ToR uplink queue [packets]");
        assert!(queue("the paper's hosts, 1") < 20.0, "{curve:?}");
        assert!(queue("the paper's hosts, 64") > 20.0 * queue("the paper's hosts, 1"), "{curve:?}");
        let of = |point: &str| destinations.mean(point, "slowdown");
        for hosts in ["defaults", "the paper's hosts"] {
            let [tor, host] =
                ["ToR switch", "host"].map(|place| of(&format!("{place}, {hosts}, 8")));
            assert!(tor <= host, "{destinations:?}");
        }
    }
}
