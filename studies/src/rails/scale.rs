//! The size of the runs.

use super::load::Load;
use super::scheme::Scheme;
use super::setup::Setup;
use crate::Effort;

/// Sizes of the study's runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Bytes that a GPU sends on average.
    pub(super) mean: u64,
    pub(super) domains: usize,
}

impl Scale {
    pub(super) fn of(effort: &Effort) -> Scale {
        match effort.quick {
            true => Scale { mean: 200_000, domains: 4 },
            false => Scale { mean: 4_000_000, domains: 8 },
        }
    }

    pub(super) fn setup(&self, scheme: Scheme, load: Load) -> Setup {
        let (mean, domains) = (self.mean, self.domains);
        Setup { domains, spines: domains, ..Setup::new(scheme, load, mean) }
    }

    /// Returns the figures' schemes under a load.
    pub(super) fn compared(&self, load: Load) -> impl Iterator<Item = Setup> {
        let scale = *self;
        Scheme::COMPARED.into_iter().map(move |scheme| scale.setup(scheme, load))
    }
}
