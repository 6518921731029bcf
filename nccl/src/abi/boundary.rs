//! Where errors and panics end: NCCL gets a code, its log the reason.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Code;
use crate::error::Error;
use crate::result_code as code;

/// Runs a call of NCCL's. Nothing unwinds into NCCL.
pub(super) fn boundary(call: &str, body: impl FnOnce() -> Result<(), Error>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => code::SUCCESS,
        Ok(Err(error)) => {
            if error.is_news() {
                tracing::error!("{call}: {error}");
            }
            error.code()
        }
        Err(_) => {
            tracing::error!("{call} panicked, which is a bug of the plugin; the process goes on");
            code::INTERNAL_ERROR
        }
    }
}

/// Drops what this process has made. A forked child keeps its copy of what its parent has: the
/// threads that would have to be waited for are missing here, and a lock may be held by one of
/// them.
pub(super) fn end<T>(thing: T, is_here: impl FnOnce(&T) -> bool) {
    if is_here(&thing) {
        drop(thing);
    } else {
        std::mem::forget(thing);
    }
}

/// What a pointer of NCCL's points to.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// It is NULL, or points to a `T` that lives as long as the call and that nobody changes meanwhile.
pub(super) unsafe fn shared<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Error> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { pointer.as_ref() }.ok_or(Error::Null(name))
}

/// As [`shared`], to be written. No reference: NCCL's places need not be initialised.
///
/// # Errors
/// It is NULL.
pub(super) fn place<T>(pointer: *mut T, name: &'static str) -> Result<*mut T, Error> {
    if pointer.is_null() { Err(Error::Null(name)) } else { Ok(pointer) }
}

/// A size of the versions that give it as `int`.
///
/// # Errors
/// It is negative.
pub(super) fn size(value: c_int) -> Result<usize, Error> {
    let wrong = Error::Argument { name: "size", value: value.into(), accepted: "0 or more" };
    usize::try_from(value).map_err(|_| wrong)
}

/// The elements of an array of NCCL's.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// It is NULL, or points to `len` elements that live as long as the call.
pub(super) unsafe fn array<'a, T>(
    pointer: *const T,
    len: usize,
    name: &'static str,
) -> Result<&'a [T], Error> {
    let pointer = place(pointer.cast_mut(), name)?;
    // SAFETY: the caller vouches for the elements.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Element `index` of an array that may be missing, as NCCL's arrays of profiler handles may.
///
/// # Safety
/// It is NULL, or has more elements than `index`.
pub(super) unsafe fn element(array: *const *mut c_void, index: usize) -> *mut c_void {
    if array.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller vouches for the element.
    unsafe { *array.add(index) }
}
