//! Calls of the versions whose lengths are an `int`: v6 to v8, and `regMr` up to v7.

use std::ffi::{c_int, c_void};

use super::super::boundary::{boundary, size};
use super::{Received, Sent};
use crate::result_code::Code;

/// # Safety
/// As [`super::reg_mr`].
pub(in crate::abi) unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    len: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> Code {
    match size(len) {
        // SAFETY: NCCL's pointers, as `super::reg_mr` wants them.
        Ok(len) => unsafe { super::reg_mr(comm, data, len, kind, mhandle) },
        Err(error) => boundary("regMr", || Err(error)),
    }
}

/// # Safety
/// The pointers are NULL or what NCCL's header says; memory stays until the request is done.
pub(in crate::abi) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    len: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    boundary("isend", || {
        let sent = Sent {
            comm,
            data,
            size: size(len)?,
            tag,
            mhandle,
            phandle: std::ptr::null_mut(),
            request,
        };
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
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    boundary("irecv", || {
        let received = Received {
            comm,
            n,
            data,
            sizes,
            tags,
            mhandles,
            phandles: std::ptr::null_mut(),
            request,
        };
        // SAFETY: NCCL's pointers, as `super::irecv` wants them.
        unsafe { super::irecv(received, size) }
    })
}
