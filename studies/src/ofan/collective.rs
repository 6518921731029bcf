//! The two traffic matrices of section 5.

use super::scheme::OfanScheme;
use super::setup::OfanSetup;
use crate::Effort;

/// The traffic of all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Collective {
    AllToAll,
    Permutation,
}

use Collective::*;

impl Collective {
    pub(super) const BOTH: [Collective; 2] = [AllToAll, Permutation];

    pub(super) fn name(self) -> &'static str {
        match self {
            AllToAll => "all-to-all",
            Permutation => "permutation",
        }
    }

    /// Returns the letter of its part of a figure.
    pub(super) fn letter(self) -> char {
        match self {
            AllToAll => 'a',
            Permutation => 'b',
        }
    }

    /// Returns the set-up on 128 nodes: a permutation of 1 MiB or an all-to-all of 256 KiB per
    /// pair, a quarter of the paper's. With `quick`, an all-to-all of 64 KiB on 16 nodes.
    pub(super) fn setup(self, effort: &Effort, scheme: OfanScheme, seed: u64) -> OfanSetup {
        let setup = OfanSetup::new(scheme, seed);
        match (self, effort.quick) {
            (Permutation, _) => setup,
            (AllToAll, false) => setup.all_to_all(256 << 10),
            (AllToAll, true) => OfanSetup { k: 4, ..setup.all_to_all(64 << 10) },
        }
    }
}
