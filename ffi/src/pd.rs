//! Protection domains.

use std::ffi::c_int;
use std::net::IpAddr;

use braid::ProtectionDomain;

use crate::arguments::Out;
use crate::boundary::enter;
use crate::braid_engine;
use crate::failure::Failure;
use crate::handle::{Child, Children, find, hand_out, object, take};

/// A protection domain. Queue pairs can only use memory regions of their own domain.
pub struct braid_pd {
    pub(crate) pd: ProtectionDomain,
    pub(crate) children: Children,
    /// The receiving address of the engine.
    pub(crate) ours: IpAddr,
    _engine: Child,
}

object!(
    braid_pd,
    3,
    "protection domain",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("protection domain")
    }
);

impl braid_pd {
    /// Creates the domain of a group, for an engine that receives at `ours`.
    pub(crate) fn of_group(pd: &ProtectionDomain, ours: IpAddr, engine: Child) -> Self {
        braid_pd { pd: pd.clone(), children: Children::default(), ours, _engine: engine }
    }
}

/// Creates a protection domain.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pd_create(
    engine: *mut braid_engine,
    pd: *mut *mut braid_pd,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(pd, "pd") }?;
        let engine = find(engine)?;
        out.set(hand_out(braid_pd {
            pd: engine.engine.alloc_pd(),
            children: Children::default(),
            ours: engine.engine.local_addr().ip(),
            _engine: engine.children.add(),
        })?);
        Ok(0)
    })
}

/// Closes a protection domain. Its memory regions and queue pairs must be closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pd_close(pd: *mut braid_pd) -> c_int {
    enter(|| take(pd).map(|_| 0))
}
