//! The size of the runs.

use super::load::Load;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::Effort;

/// Sizes of the study's runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RailsScale {
    /// Bytes that a GPU sends on average.
    pub(super) mean: u64,
    pub(super) domains: usize,
}

impl RailsScale {
    pub(super) fn of(effort: &Effort) -> RailsScale {
        match effort.quick {
            true => RailsScale { mean: 200_000, domains: 4 },
            false => RailsScale { mean: 4_000_000, domains: 8 },
        }
    }

    pub(super) fn setup(&self, scheme: RailsScheme, load: Load) -> RailsSetup {
        let (mean, domains) = (self.mean, self.domains);
        RailsSetup { domains, spines: domains, ..RailsSetup::new(scheme, load, mean) }
    }

    /// Returns the figures' schemes under a load.
    pub(super) fn compared(&self, load: Load) -> impl Iterator<Item = RailsSetup> {
        let scale = *self;
        RailsScheme::COMPARED.into_iter().map(move |scheme| scale.setup(scheme, load))
    }
}
