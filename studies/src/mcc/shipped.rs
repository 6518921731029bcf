//! The congestion controls on the hosts that ship.

use super::outcome::{MccOutcome, measure};
use super::runs::SEEDS;
use super::scale::MccScale;
use super::setup::{MccScheme, MccSetup};
use crate::Effort;
use crate::shipped::{Experiments, Table};

pub(crate) fn shipped(effort: &Effort) -> Vec<Table> {
    let bytes = MccScale::of(effort).server_bytes()[0];
    let experiments = Experiments {
        title: format!(
            "Four pairs over two uplinks of which one is slow, {} in one direction; switches \
             choose the shortest queue for each packet. The defaults are `cubic` in every row",
            MccScale::label(bytes)
        ),
        cases: MccScheme::COMPARED.map(|scheme| (scheme.name.to_owned(), scheme)).into(),
        quantities: &[("completion [ms]", |run: &MccOutcome| run.completion_ms)],
        seeds: effort.seeds(SEEDS).collect(),
    };
    vec![experiments.by_product(|scheme, product, seed| {
        measure(&MccSetup { product, ..MccSetup::new(*scheme, bytes) }, seed)
    })]
}
