//! RailS on the hosts that ship. The engine does not plan rounds: it picks the rail of each chunk
//! when it sends the chunk.

use super::bandwidth::loads;
use super::outcome::{RailsOutcome, measure};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use super::skew::{RECEIVERS, SENDERS};
use crate::Effort;
use crate::shipped::{Experiments, Product, Table};

/// Maximum runs per load.
const SEEDS: u32 = 2;

pub(crate) fn shipped(effort: &Effort) -> Vec<Table> {
    let scale = RailsScale::of(effort);
    let skewed = [("skewed senders", SENDERS), ("skewed receivers", RECEIVERS)];
    let cases = loads().into_iter().chain(skewed);
    let experiments = Experiments::<_, RailsOutcome> {
        title: format!(
            "All-to-all over 8 rails, completion time over T*; {} domains, {} MB per GPU. \
             The paper plans each round by LPT, in chunks of 32 KiB. As shipped, rail r leads to \
             rail r, and the rail of each 64 KiB is picked as they are sent: by `least-loaded`, \
             the default, or by `lpt`",
            scale.domains,
            scale.mean as f64 / 1e6
        ),
        cases: cases.map(|(name, load)| (name.to_owned(), load)).collect(),
        quantities: &[("time / T*", RailsOutcome::over_bound)],
        seeds: effort.seeds(SEEDS).collect(),
    };
    let table = experiments.by_product(|load, product, seed| {
        let scheme = match product {
            Product::Paper => RailsScheme::RAILS,
            Product::Defaults | Product::PaperPolicies => RailsScheme::ONLINE,
        };
        measure(&RailsSetup { product, ..scale.setup(scheme, *load) }, seed)
    });
    vec![table]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_product_beats_the_bound_and_every_load_is_there() {
        let [table] = &shipped(&Effort::QUICK)[..] else { panic!("there is one table") };
        assert_eq!(table.rows.len(), 1 + 5 + 2);
        for column in ["as shipped, defaults", "as shipped, the paper's policies"] {
            assert!(table.mean("uniform: time / T*", column) >= 1.0, "{table:?}");
            let receivers = table.mean("skewed receivers: time / T*", column);
            assert!(receivers < 2.0, "all rails of the receiver are used: {table:?}");
        }
    }
}
