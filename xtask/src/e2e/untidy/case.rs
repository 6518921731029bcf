//! One case of the laboratory.

use std::path::Path;

use crate::Failure;

/// One untidy network and what has to hold on it.
pub(super) struct UntidyCase {
    /// Printed before the case runs.
    pub(super) name: &'static str,
    pub(super) run: fn(&Path) -> Result<(), Failure>,
}
