//! Shared receive queues.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::abi::*;
use crate::post::{ENOSYS, post};
use crate::{Pd, PostError, RecvWr, VerbsError};

/// A receive queue that several queue pairs share. Clones are handles of the same queue.
#[derive(Clone, Debug)]
pub struct Srq(Arc<SrqOwner>);

#[derive(Debug)]
struct SrqOwner {
    pd: Pd,
    raw: NonNull<ibv_srq>,
}

// SAFETY: libibverbs may be called from any thread and locks inside; the pointer stays valid until
// `drop`.
unsafe impl Send for SrqOwner {}
// SAFETY: as above.
unsafe impl Sync for SrqOwner {}

impl Pd {
    /// Makes a receive queue that queue pairs can share, for `max_wr` work requests of `max_sge`
    /// entries.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<Srq, VerbsError> {
        let context = self.context();
        let attr = ibv_srq_attr { max_wr, max_sge, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        // SAFETY: the domain is alive, and `init` receives the actual sizes.
        let raw = unsafe { (context.symbols().ibv_create_srq)(self.raw(), &raw mut init) };
        let asked = || format!("{max_wr} work requests of {max_sge} entries");
        let raw = context.made("ibv_create_srq", asked, raw)?;
        Ok(Srq(Arc::new(SrqOwner { pd: self.clone(), raw })))
    }
}

impl Srq {
    /// Posts receive work requests in order.
    ///
    /// # Errors
    /// The first work request that was not posted.
    ///
    /// # Safety
    /// The requirements of [`Qp::post_recv`](crate::Qp::post_recv).
    pub unsafe fn post_recv(&self, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        let srq = self.raw();
        // SAFETY: the queue and its context are alive.
        let call = unsafe { (*(*srq).context).ops.post_srq_recv };
        post(
            wrs,
            |wr| wr.to_raw(),
            |first, bad| match call {
                // SAFETY: the queue is alive, the chain ends in null, and the caller guarantees the
                // memory.
                Some(post_srq_recv) => unsafe { post_srq_recv(srq, first, bad) },
                None => ENOSYS,
            },
        )
    }

    pub(crate) fn raw(&self) -> *mut ibv_srq {
        self.0.raw.as_ptr()
    }

    pub(crate) fn pd(&self) -> &Pd {
        &self.0.pd
    }
}

impl Drop for SrqOwner {
    fn drop(&mut self) {
        // SAFETY: this was the last handle, and every queue pair that uses the queue held one.
        let code = unsafe { (self.pd.context().symbols().ibv_destroy_srq)(self.raw.as_ptr()) };
        self.pd.context().unmade("ibv_destroy_srq", code);
    }
}
