//! Protection domains.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::ibv_pd;
use crate::{Context, VerbsError};

/// A protection domain: queue pairs can use only memory regions of their own domain. Clones are
/// handles of the same domain.
#[derive(Clone, Debug)]
pub struct Pd(Arc<PdOwner>);

#[derive(Debug)]
struct PdOwner {
    context: Context,
    raw: NonNull<ibv_pd>,
}

// SAFETY: libibverbs may be called from any thread; the pointer stays valid until `drop`.
unsafe impl Send for PdOwner {}
// SAFETY: as above.
unsafe impl Sync for PdOwner {}

impl Context {
    /// Creates a protection domain.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn alloc_pd(&self) -> Result<Pd, VerbsError> {
        // SAFETY: the context is open.
        let raw = unsafe { (self.symbols().ibv_alloc_pd)(self.raw()) };
        let raw = self.made("ibv_alloc_pd", String::new, raw)?;
        Ok(Pd(Arc::new(PdOwner { context: self.clone(), raw })))
    }
}

impl Pd {
    /// Returns the device of the domain.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(crate) fn raw(&self) -> *mut ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for PdOwner {
    fn drop(&mut self) {
        // SAFETY: this was the last handle, and every object made in the domain held one.
        let code = unsafe { (self.context.symbols().ibv_dealloc_pd)(self.raw.as_ptr()) };
        self.context.unmade("ibv_dealloc_pd", code);
    }
}
