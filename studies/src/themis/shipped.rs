//! Themis' collectives on the hosts that ship. Themis is in switches. Its form in hosts is spraying
//! by PSN, and loss recovery by the order within each path.

use braid_sim::host::Recovery;
use braid_transport::LossRecovery;

use super::collectives::{RATE, ThemisCollective, ThemisScale};
use super::outcome::{ThemisOutcome, measure};
use super::setup::{ThemisControl, ThemisScheme, ThemisSetup, Timers};
use crate::Effort;
use crate::shipped::{Experiments, Product, Table};

/// Maximum runs per collective.
const SEEDS: u32 = 1;

pub(crate) fn shipped(effort: &Effort) -> Vec<Table> {
    let usual = ThemisScale::of(effort);
    let scale = ThemisScale { bytes: usual.bytes / 4, ..usual };
    let experiments = Experiments {
        title: format!(
            "Collectives of {} MB in {} groups; the paper has Themis in switches over NIC-SR, and \
             DCQCN. As shipped with its policies: `--lb psn --cc dcqcn --loss-recovery fifo-path` \
             over source routes",
            scale.bytes as f64 / 1e6,
            scale.members
        ),
        cases: ThemisCollective::BOTH.map(|of| (of.name().to_owned(), of)).into(),
        quantities: &[
            ("slowest group [us]", |run: &ThemisOutcome| run.completion_us),
            ("retransmissions [%]", |run| 100.0 * run.resent),
            ("marks", |run| run.marks as f64),
        ],
        seeds: effort.seeds(SEEDS).collect(),
    };
    vec![experiments.by_product(|collective, product, seed| {
        let scheme = match product {
            Product::Paper => ThemisScheme::Themis,
            Product::Defaults | Product::PaperPolicies => ThemisScheme::PsnSpraying,
        };
        let control = ThemisControl::Dcqcn(Timers::RECOMMENDED);
        let setup = ThemisSetup { product, ..ThemisSetup::new(scheme, control, RATE, seed) };
        let mut plan = setup.plan(&scale.fabric(), collective.workload(scale, scale.bytes));
        if product == Product::PaperPolicies {
            plan.host.recovery = Recovery::Protocol(LossRecovery::FifoPath);
        }
        measure(plan, RATE, setup.packet(), None)
    })]
}
