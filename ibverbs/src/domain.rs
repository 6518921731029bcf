//! Protection domains.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid::ProtectionDomain;
use braid_verbs::abi::ibv_pd;

use crate::errno::Errno;
use crate::running::Running;

/// A protection domain, as programs hold it.
#[repr(C)]
pub(crate) struct Pd {
    pub(crate) base: ibv_pd,
    pub(crate) shared: Arc<Domain>,
}

/// The part of a protection domain that its objects hold.
pub(crate) struct Domain {
    pub(crate) engine: ProtectionDomain,
    pub(crate) running: Arc<Running>,
    users: AtomicU32,
}

impl Domain {
    pub(crate) fn new(engine: ProtectionDomain, running: Arc<Running>) -> Self {
        Domain { engine, running, users: AtomicU32::new(0) }
    }

    /// An object was made in the domain.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// An object of the domain was destroyed.
    pub(crate) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }
}

impl Pd {
    /// The domain that a program names.
    pub(crate) unsafe fn of<'a>(pd: *mut ibv_pd) -> Result<&'a Pd, Errno> {
        // SAFETY: by the caller's promise it was made by `ibv_alloc_pd`.
        unsafe { pd.cast::<Pd>().as_ref() }.ok_or(Errno::INVALID)
    }
}
