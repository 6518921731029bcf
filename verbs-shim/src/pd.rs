//! Protection domains.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::ibv_pd;
use crate::{Ah, Context, Mr, MrAccess, Qp, QpInit, Route, Srq, VerbsError};

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

impl Pd {
    pub(crate) fn alloc(context: &Context) -> Result<Self, VerbsError> {
        // SAFETY: the context is open.
        let raw = unsafe { (context.symbols().ibv_alloc_pd)(context.raw()) };
        let raw = context.made("ibv_alloc_pd", String::new, raw)?;
        Ok(Pd(Arc::new(PdOwner { context: context.clone(), raw })))
    }

    /// Registers `len` bytes at `addr` with the device, which pins them.
    ///
    /// # Errors
    /// [`VerbsError::Refused`]; `ENOMEM` usually means the limit of locked memory, `ulimit -l`.
    ///
    /// # Safety
    /// Until the region is dropped the bytes stay mapped, and writable if `access` includes
    /// [`MrAccess::LOCAL_WRITE`]. No Rust reference to them exists while the device may access
    /// them: for peers with the `rkey` at any time, and for outstanding work requests.
    pub unsafe fn register(
        &self,
        addr: *mut u8,
        len: usize,
        access: MrAccess,
    ) -> Result<Mr, VerbsError> {
        // SAFETY: the caller guarantees the memory.
        unsafe { Mr::register(self, addr, len, access) }
    }

    /// Makes a receive queue that queue pairs can share, for `max_wr` work requests of `max_sge`
    /// entries.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<Srq, VerbsError> {
        Srq::create(self, max_wr, max_sge)
    }

    /// Creates a queue pair in RESET.
    ///
    /// # Errors
    /// [`VerbsError::OtherContext`], [`VerbsError::Refused`].
    pub fn create_qp(&self, init: &QpInit<'_>) -> Result<Qp, VerbsError> {
        Qp::create(self, init)
    }

    /// Creates an address handle for UD messages along `route`.
    ///
    /// # Errors
    /// [`VerbsError::OutOfRange`], [`VerbsError::NoDestination`], [`VerbsError::Refused`].
    pub fn create_ah(&self, route: &Route) -> Result<Ah, VerbsError> {
        Ah::create(self, route)
    }

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
