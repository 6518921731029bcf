//! Protection domains and memory regions.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::call::{make, unmake};
use crate::abi::*;

/// Creates a domain, which is represented by its context.
pub(super) unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    make("ibv_alloc_pd", "pd", context).cast()
}

pub(super) unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_dealloc_pd", "pd", pd.cast::<*mut ibv_context>()) }
}

pub(super) unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    _: c_int,
) -> *mut ibv_mr {
    let context = ptr::null_mut();
    let mr = ibv_mr { context, pd, addr, length, handle: 0, lkey: 0x11, rkey: 0x22 };
    make("ibv_reg_mr", "mr", mr)
}

pub(super) unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_dereg_mr", "mr", mr) }
}
