//! PRO at the sizes of figure 8 under choices that the paper leaves open: the sending of a tree's
//! roots, and the routing of control packets.

use super::comparison::range;
use super::outcome::{ProOutcome, measure};
use super::setup::{PIPELINE, Pattern, ProScheme, ProSetup, paper_fabric};
use crate::{Effort, Point, Series, run_all};
use braid_sim::workload::Forwarding;

/// Maximum runs per point.
const SEEDS: u32 = 1;

/// A variant of PRO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) pattern: Pattern,
    control_hashed: bool,
}

/// PRO chooses no path for acknowledgements; the simulator that its authors started from hashes
/// them.
pub(super) const CONTROL_HASHED: Variant =
    Variant { name: "PRO, control hashed", pattern: Pattern::Ring, control_hashed: true };

const fn tree(name: &'static str, forwarding: Forwarding) -> Variant {
    Variant { name, pattern: Pattern::Tree(forwarding), control_hashed: false }
}

pub(super) const ROOTS_AT_ONCE: Variant = tree("PRO, roots at once", Forwarding::None);
pub(super) const ROOTS_JOINED: Variant = tree("PRO, roots joined", Forwarding::JoinedRoots);
pub(super) const STRICT: Variant = tree("PRO, all forward", Forwarding::Strict(PIPELINE));

/// All runs of all variants.
pub(super) struct Variants {
    sizes: Vec<u64>,
    runs: Vec<(Variant, u64, ProOutcome)>,
}

impl Variants {
    pub(super) fn run(effort: &Effort, sizes: &[u64]) -> Variants {
        let variants = [STRICT, ROOTS_AT_ONCE, ROOTS_JOINED, CONTROL_HASHED];
        let points = sizes.iter().rev().flat_map(|bytes| variants.map(|of| (of, *bytes)));
        let cases =
            points.flat_map(|(of, bytes)| effort.seeds(SEEDS).map(move |seed| (of, bytes, seed)));
        let runs = run_all("Fig. 8, PRO", cases.collect(), |(variant, bytes, seed)| {
            (variant, bytes, variant.measure(bytes, seed))
        });
        Variants { sizes: sizes.to_vec(), runs }
    }

    pub(super) fn values(
        &self,
        of: Variant,
        bytes: u64,
        value: impl Fn(&ProOutcome) -> f64,
    ) -> Vec<f64> {
        let here = self.runs.iter().filter(|(variant, size, _)| (*variant, *size) == (of, bytes));
        here.map(|(_, _, outcome)| value(outcome)).collect()
    }

    pub(super) fn line(&self, of: Variant) -> Series {
        let point = |bytes: &u64| {
            Point::at(*bytes as f64 / 1e6, &self.values(of, *bytes, |outcome| outcome.slowdown))
        };
        Series { name: of.name.into(), points: self.sizes.iter().map(point).collect() }
    }

    /// Formats the slowdowns by size: "1 MB 1.04, 4 MB 1.02".
    pub(super) fn slowdowns(&self, of: Variant) -> String {
        let part = |bytes: &u64| {
            let values = self.values(of, *bytes, |outcome| outcome.slowdown);
            format!("{} MB {}", *bytes as f64 / 1e6, range(&values, 3))
        };
        self.sizes.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

impl Variant {
    fn measure(self, bytes: u64, seed: u64) -> ProOutcome {
        let topology = paper_fabric();
        let workload = self.pattern.workload(&topology, bytes, seed);
        let setup =
            ProSetup { control_hashed: self.control_hashed, ..ProSetup::new(ProScheme::Pro, seed) };
        measure(setup.plan(&topology, workload), false)
            .unwrap_or_else(|error| panic!("{self:?}, {bytes} bytes, seed {seed}: {error}"))
    }
}
