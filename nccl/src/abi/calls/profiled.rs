//! Messages with a profiler handle: v10 and later.

use std::ffi::{c_int, c_void};

use super::super::boundary::boundary;
use super::{Received, Sent};
use crate::result_code::Code;

/// # Safety
/// The pointers are NULL or what NCCL's header says; memory stays until the request is done.
pub(in crate::abi) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    phandle: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    boundary("isend", || {
        let sent = Sent { comm, data, size, tag, mhandle, phandle, request };
        // SAFETY: NCCL's pointers, as `super::isend` wants them.
        unsafe { super::isend(sent) }
    })
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
    phandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    boundary("irecv", || {
        let received = Received { comm, n, data, sizes, tags, mhandles, phandles, request };
        // SAFETY: NCCL's pointers, as `super::irecv` wants them.
        unsafe { super::irecv(received, Ok) }
    })
}
