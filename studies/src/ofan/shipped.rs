//! The host schemes on the hosts that ship.

use super::failures::Failures;
use super::scheme::OfanScheme::{self, HostDr, HostPkt, HostPktAr, Ofan};
use super::setup::{OfanOutcome, OfanSetup};
use crate::Effort;
use crate::shipped::{Experiments, Table};

/// Maximum runs per point.
const SEEDS: u32 = 3;

const FAILED: Failures = Failures { rate: 0.01, converge: Some(0.0) };

const SCHEMES: [OfanScheme; 3] = [HostDr, HostPkt, HostPktAr];

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
            quantities: &[
                ("CCT beyond the lower bound [%]", OfanOutcome::increase),
                ("longest queue [full packets]", |run| run.max_queue),
            ],
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
    ]
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
        quantities: &[
            ("CCT beyond the lower bound [%]", OfanOutcome::increase),
            ("longest queue [full packets]", |run| run.max_queue),
        ],
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
    fn batches_lengthen_the_queue_of_destination_rotation() {
        let tables = shipped(&Effort::QUICK);
        let [full, unlimited, failed] = &tables[..] else { panic!("there are three tables") };
        let increase = |scheme: &str| {
            failed.mean(&format!("{scheme}: CCT beyond the lower bound [%]"), "as in the paper")
        };
        assert!(increase("HOST DR") < increase("HOST PKT"), "{failed:?}");
        for table in [full, unlimited] {
            let queue = |column: &str| table.mean("HOST DR: longest queue [full packets]", column);
            assert!(queue("as in the paper") < 10.0, "{table:?}");
            assert!(queue("as shipped, the paper's policies") > 20.0, "{table:?}");
        }
    }
}
