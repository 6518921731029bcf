//! The engines whose metrics a server shows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::Observed;

/// The engines of one server, with their registrations.
#[derive(Clone, Default)]
pub(super) struct ServedEngines(Arc<Mutex<Vec<(u64, Observed)>>>);

impl ServedEngines {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<(u64, Observed)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ServedEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedEngines").field("engines", &self.lock().len()).finish()
    }
}
