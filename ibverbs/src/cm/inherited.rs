//! The properties that connections inherit from their listener.

use std::ffi::c_void;
use std::sync::Arc;

use braid::Security;

use super::port_space::PortSpace;

/// The properties of a listener.
#[derive(Clone)]
pub(super) struct Inherited {
    pub(super) context: *mut c_void,
    pub(super) ps: PortSpace,
    pub(super) security: Option<Arc<Security>>,
}

// SAFETY: the pointers are only handed on to the program.
unsafe impl Send for Inherited {}
// SAFETY: as above.
unsafe impl Sync for Inherited {}
