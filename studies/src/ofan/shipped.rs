//! The host schemes on the hosts that ship.

use super::failures::Failures;
use super::scheme::OfanScheme::{self, HostDr, HostPkt, HostPktAr, Ofan};
use super::setup::{OfanOutcome, OfanSetup};
use crate::Effort;
use crate::shipped::{Experiments, Metric, Product, Table};

/// Maximum runs per point.
const SEEDS: u32 = 3;

const FAILED: Failures = Failures { rate: 0.01, converge: Some(0.0) };

const SCHEMES: [OfanScheme; 3] = [HostDr, HostPkt, HostPktAr];

/// Packets per path pick. A call takes 15 of these packets.
const PICKS: [u32; 6] = [1, 2, 3, 4, 8, 15];

const QUANTITIES: [Metric<OfanOutcome>; 2] = [
    ("CCT beyond the lower bound [%]", OfanOutcome::increase),
    ("longest queue [full packets]", |run| run.max_queue),
];

pub(crate) fn shipped(effort: &Effort) -> Vec<Table> {
    let bytes: u64 = if effort.quick { 256 << 10 } else { 4 << 20 };
    let title = |what: &str| {
        format!(
            "A permutation of {} KiB over 128 nodes, {what}. HOST DR is `--lb dr` over source \
             routes, HOST PKT `oblivious`, HOST PKT AR `reps`. The paper's policies include its \
             fixed rate and ideal recovery; its lower bound has an acknowledgement per packet, of \
             which the product sends one per 32",
            bytes >> 10
        )
    };
    let table = |what: &str, unlimited: bool| {
        let experiments = Experiments {
            title: title(what),
            cases: SCHEMES.map(|scheme| (scheme.name().to_owned(), scheme)).into(),
            quantities: &QUANTITIES,
            seeds: effort.seeds(SEEDS).collect(),
        };
        experiments.by_product(|scheme, product, seed| {
            OfanSetup { product, bytes, unlimited, ..OfanSetup::new(*scheme, seed) }.run()
        })
    };
    vec![
        table("800 KB of buffer per port", false),
        table("queues without a limit", true),
        with_failures(effort),
        by_quantum(effort, bytes),
    ]
}

/// Returns the curve of destination rotation over the packets per path pick, at the link's rate and
/// at the rate that acknowledgements of every packet leave.
fn by_quantum(effort: &Effort, bytes: u64) -> Table {
    let base = OfanSetup {
        bytes,
        unlimited: true,
        product: Product::PaperPolicies,
        ..OfanSetup::new(HostDr, 0)
    };
    let rates = [("the link's rate", false), ("98 % of it", true)];
    let points = rates.into_iter().flat_map(|(name, paced)| {
        let base = OfanSetup { paced, ..base.clone() };
        PICKS.map(|packets| {
            (format!("{name}, {packets}"), OfanSetup { quantum: Some(packets), ..base.clone() })
        })
    });
    let paper = OfanSetup { product: Product::Paper, ..base.clone() };
    let experiments = Experiments {
        title: format!(
            "HOST DR with the paper's policies as shipped: the permutation of {} KiB, queues \
             without a limit, by the rate of the hosts and the packets per path pick. \
             Acknowledgements of every packet, as in the paper, leave 98 % of a link",
            bytes >> 10
        ),
        cases: points.chain([("as in the paper".into(), paper)]).collect(),
        quantities: &QUANTITIES,
        seeds: effort.seeds(SEEDS).collect(),
    };
    experiments.by_case("packets per pick", |setup, seed| OfanSetup { seed, ..setup.clone() }.run())
}

/// Returns the table with failed links, of which hosts and switches know from the start.
fn with_failures(effort: &Effort) -> Table {
    let experiments = Experiments {
        title: "A permutation of 1 MiB over 128 nodes, 1 % of the links between switches have \
                failed, and routing has converged before the start. HOST DR rotates over the \
                routes that work"
            .into(),
        cases: [HostDr, HostPkt, HostPktAr, Ofan]
            .map(|scheme| (scheme.name().to_owned(), scheme))
            .into(),
        quantities: &QUANTITIES,
        seeds: effort.seeds(SEEDS).collect(),
    };
    experiments.by_product(|scheme, product, seed| {
        OfanSetup { product, failures: FAILED, ..OfanSetup::new(*scheme, seed) }.run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_rotation_picks_a_path_per_packet_and_keeps_its_queue() {
        let tables = shipped(&Effort::QUICK);
        let [full, unlimited, failed, curve] = &tables[..] else { panic!("{tables:?}") };
        let increase = |scheme: &str| {
            failed.mean(&format!("{scheme}: CCT beyond the lower bound [%]"), "as in the paper")
        };
        assert!(increase("HOST DR") < increase("HOST PKT"), "{failed:?}");
        for table in [full, unlimited] {
            let queue = |column: &str| table.mean("HOST DR: longest queue [full packets]", column);
            assert!(queue("as in the paper") < 10.0, "{table:?}");
            let shipped = queue("as shipped, the paper's policies");
            assert!(shipped <= 2.0 * queue("as in the paper"), "{table:?}");
        }
        let queue = |point: &str| curve.mean(point, "longest queue [full packets]");
        assert!(queue("98 % of it, 2") <= 2.0 * queue("as in the paper"), "{curve:?}");
        assert!(queue("98 % of it, 15") > 3.0 * queue("as in the paper"), "{curve:?}");
    }
}
