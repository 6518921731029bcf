//! The product beside the paper: the same experiments on the hosts that ship.

use braid_lab::charts::Spread;
use braid_sim::host::{HostConfig, Paths};
use serde::Serialize;

use crate::batch::run_all;
use crate::write::spread;

/// The hosts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Product {
    /// The engine over UDP sockets, without any setting by the user.
    Defaults,
    /// The engine with the path policy, congestion control and loss recovery of the paper.
    PaperPolicies,
    /// The hosts of the paper.
    Paper,
}

impl Product {
    /// All hosts, what ships first.
    pub(crate) const ALL: [Product; 3] =
        [Product::Defaults, Product::PaperPolicies, Product::Paper];

    fn name(self) -> &'static str {
        match self {
            Product::Defaults => "as shipped, defaults",
            Product::PaperPolicies => "as shipped, the paper's policies",
            Product::Paper => "as in the paper",
        }
    }

    /// Returns the hosts of a run that has these hosts in the paper. Where switches route by path
    /// numbers, the engine has one port per route, as path discovery arranges.
    pub(crate) fn hosts(self, paper: HostConfig) -> HostConfig {
        let shipped = HostConfig::shipped();
        let paths = match paper.paths {
            Paths::Source => Paths::Source,
            Paths::Hashed(_) => shipped.paths,
        };
        // The links of the fabric and their limits are the experiment's.
        let shipped = HostConfig {
            share: paper.share,
            nvlink: paper.nvlink.clone(),
            send_queue: paper.send_queue,
            ..shipped
        };
        match self {
            Product::Paper => paper,
            Product::Defaults => HostConfig { paths, ..shipped },
            Product::PaperPolicies => HostConfig {
                lb: paper.lb,
                paths: paper.paths,
                rail_scheme: paper.rail_scheme,
                recovery: paper.recovery,
                reorder_threshold: paper.reorder_threshold,
                cc: paper.cc,
                ..shipped
            },
        }
    }
}

/// A table of measurements.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The cells by row. The first row is the heading, and the first cell of a row its name.
    pub rows: Vec<Vec<String>>,
}

/// A measured quantity with its name and unit.
pub(crate) type Metric<O> = (&'static str, fn(&O) -> f64);

/// The experiments of a table.
pub(crate) struct Experiments<'a, C, O> {
    pub(crate) title: String,
    /// The experiments with their names.
    pub(crate) cases: Vec<(String, C)>,
    pub(crate) quantities: &'a [Metric<O>],
    pub(crate) seeds: Vec<u64>,
}

impl<C: Clone + Send + Sync, O: Send> Experiments<'_, C, O> {
    /// Returns a row per case and quantity, and a column for each of [`Product::ALL`].
    pub(crate) fn by_product(self, measure: impl Fn(&C, Product, u64) -> O + Sync) -> Table {
        let on = |case: &C| Product::ALL.map(|product| (case.clone(), product));
        let cases = self.cases.iter().flat_map(|(_, case)| on(case)).collect();
        let outcomes = self.run(cases, |(case, product), seed| measure(case, *product, seed));
        let heading = std::iter::once("").chain(Product::ALL.map(Product::name));
        let mut rows = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
        for ((name, _), products) in self.cases.iter().zip(outcomes.chunks(Product::ALL.len())) {
            for (quantity, of) in self.quantities {
                let cells = products.iter().map(|runs| cell(runs, *of));
                let label = format!("{name}: {quantity}");
                rows.push(std::iter::once(label).chain(cells).collect());
            }
        }
        Table { title: self.title, rows }
    }

    /// Returns a row per case and a column per quantity. `corner` names the cases.
    pub(crate) fn by_case(self, corner: &str, measure: impl Fn(&C, u64) -> O + Sync) -> Table {
        let cases = self.cases.iter().map(|(_, case)| case.clone()).collect();
        let outcomes = self.run(cases, measure);
        let heading = std::iter::once(corner).chain(self.quantities.iter().map(|(name, _)| *name));
        let mut rows = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
        for ((name, _), runs) in self.cases.iter().zip(outcomes) {
            let cells = self.quantities.iter().map(|(_, of)| cell(&runs, *of));
            rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
        Table { title: self.title, rows }
    }

    /// Returns the outcomes of each case, one per seed.
    fn run<J: Clone + Send>(
        &self,
        cases: Vec<J>,
        measure: impl Fn(&J, u64) -> O + Sync,
    ) -> Vec<Vec<O>> {
        let seeds = &self.seeds;
        let with_seeds =
            |case: &J| seeds.iter().map(|seed| (case.clone(), *seed)).collect::<Vec<_>>();
        let jobs = cases.iter().flat_map(with_seeds).collect();
        let mut outcomes =
            run_all("as shipped", jobs, |(case, seed)| measure(&case, seed)).into_iter();
        cases.iter().map(|_| outcomes.by_ref().take(seeds.len()).collect()).collect()
    }
}

fn cell<O>(runs: &[O], of: fn(&O) -> f64) -> String {
    spread(Spread::of(&runs.iter().map(of).collect::<Vec<_>>()))
}

#[cfg(test)]
impl Table {
    /// Returns the mean in the row and column of these names.
    pub(crate) fn mean(&self, row: &str, column: &str) -> f64 {
        let at = self.rows[0].iter().position(|name| name == column);
        let found = self.rows.iter().find(|cells| cells[0] == row).zip(at);
        let (cells, at) = found.unwrap_or_else(|| panic!("no {row}, {column} in {self:?}"));
        let mean = cells[at].split(' ').next().and_then(|mean| mean.parse().ok());
        mean.unwrap_or_else(|| panic!("{} is not a number", cells[at]))
    }
}

#[cfg(test)]
mod tests {
    use braid_lb::LbPolicy;
    use braid_sim::host::{BatchSize, Recovery, Sharing};

    use super::*;

    fn paper() -> HostConfig {
        HostConfig {
            lb: LbPolicy::PRO,
            recovery: Recovery::Ideal,
            share: 0.5,
            health: false,
            ..HostConfig::default()
        }
    }

    #[test]
    fn the_product_differs_from_the_paper_where_it_says() {
        assert_eq!(Product::Paper.hosts(paper()), paper());
        let defaults = Product::Defaults.hosts(paper());
        let paths = Paths::Source;
        assert_eq!(defaults, HostConfig { paths, share: 0.5, ..HostConfig::shipped() });
        let policies = Product::PaperPolicies.hosts(paper());
        assert_eq!((policies.lb, policies.recovery), (LbPolicy::PRO, Recovery::Ideal));
        assert_eq!((policies.batch, policies.sharing), (BatchSize::GSO, Sharing::Host));
        assert_eq!(policies.quantum, None);
        assert!(policies.health);
    }

    #[test]
    fn tables_have_a_row_per_case_and_quantity() {
        let experiments = || Experiments::<u64, u64> {
            title: "Sums".into(),
            cases: vec![("small".into(), 10), ("large".into(), 100)],
            quantities: &[("sum", |sum| *sum as f64), ("double", |sum| 2.0 * *sum as f64)],
            seeds: vec![1, 3],
        };
        let table = experiments().by_product(|case, product, seed| case + product as u64 + seed);
        assert_eq!(table.rows.len(), 5);
        assert_eq!(table.mean("small: sum", "as shipped, defaults"), 12.0);
        assert_eq!(table.mean("large: double", "as in the paper"), 208.0);
        let table = experiments().by_case("size", |case, seed| case * seed);
        assert_eq!(table.rows[0], ["size", "sum", "double"]);
        assert_eq!(table.mean("large", "double"), 400.0);
    }
}
