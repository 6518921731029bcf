//! The boundary to NCCL: errors and panics become result codes, and the log gets the reason.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;
use crate::result_code as code;
use crate::result_code::Code;

/// Runs a call of NCCL. No panic unwinds into NCCL.
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

/// Drops an object of this process. A forked child keeps its copies of the parent's objects: their
/// threads do not exist in the child, and their locks may be held.
pub(super) fn end<T>(thing: T, is_here: impl FnOnce(&T) -> bool) {
    if is_here(&thing) {
        drop(thing);
    } else {
        std::mem::forget(thing);
    }
}

/// Returns the object behind a pointer of NCCL.
///
/// # Errors
/// If it is NULL.
///
/// # Safety `pointer` is NULL, or points to a `T` that is valid during the call and that nobody
/// changes meanwhile.
pub(super) unsafe fn shared<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Error> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { pointer.as_ref() }.ok_or(Error::Null(name))
}

/// Returns a pointer to write to, like [`shared`]. It is not a reference, because NCCL's memory
/// need not be initialised.
///
/// # Errors
/// If it is NULL.
pub(super) fn place<T>(pointer: *mut T, name: &'static str) -> Result<*mut T, Error> {
    if pointer.is_null() { Err(Error::Null(name)) } else { Ok(pointer) }
}

/// Converts a length of the versions that pass it as `int`.
///
/// # Errors
/// If it is negative.
pub(super) fn size(value: c_int) -> Result<usize, Error> {
    let wrong = Error::Argument { name: "size", value: value.into(), accepted: "0 or more" };
    usize::try_from(value).map_err(|_| wrong)
}

/// Returns the elements of an array of NCCL.
///
/// # Errors
/// If it is NULL.
///
/// # Safety
/// `pointer` is NULL, or points to `len` elements that are valid during the call.
pub(super) unsafe fn array<'a, T>(
    pointer: *const T,
    len: usize,
    name: &'static str,
) -> Result<&'a [T], Error> {
    let pointer = place(pointer.cast_mut(), name)?;
    // SAFETY: the caller vouches for the elements.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Returns element `index` of an optional array, such as NCCL's profiler handles.
///
/// # Safety
/// `array` is NULL, or has more elements than `index`.
pub(super) unsafe fn element(array: *const *mut c_void, index: usize) -> *mut c_void {
    if array.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller vouches for the element.
    unsafe { *array.add(index) }
}
