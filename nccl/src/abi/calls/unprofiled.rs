//! Messages of v9, which have a `size_t` and no handle of the profiler.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::profiled;
use crate::result_code::Code;

/// # Safety
/// The pointers are NULL or what NCCL's header says; memory stays until the request is done.
pub(in crate::abi) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers; the handle of the profiler may be NULL.
    unsafe { profiled::isend(comm, data, size, tag, mhandle, ptr::null_mut(), request) }
}

/// # Safety
/// The pointers are NULL or what NCCL's header says; memory stays until the request is done.
pub(in crate::abi) unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers; the handle of the profiler may be NULL.
    unsafe { profiled::irecv(comm, n, data, sizes, tags, mhandles, ptr::null_mut(), request) }
}
