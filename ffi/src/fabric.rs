//! Networks inside one process, for tests.

use std::ffi::c_int;

use braid::MemFabric;

use crate::arguments::Out;
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Children, hand_out, object, take};

/// A network inside this process, for tests. Its engines reach each other at freely chosen
/// addresses.
pub struct braid_fabric {
    pub(crate) fabric: MemFabric,
    pub(crate) children: Children,
}

object!(
    braid_fabric,
    1,
    "fabric",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("fabric")
    }
);

/// Creates an empty network.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_fabric_create(fabric: *mut *mut braid_fabric) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(fabric, "fabric") }?;
        let (fabric, children) = (MemFabric::new(), Children::default());
        out.set(hand_out(braid_fabric { fabric, children })?);
        Ok(0)
    })
}

/// Closes a network. Its engines must be closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_fabric_close(fabric: *mut braid_fabric) -> c_int {
    enter(|| take(fabric).map(|_| 0))
}
