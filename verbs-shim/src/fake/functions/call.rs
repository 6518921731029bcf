//! The common parts of the functions.

use std::ffi::c_int;
use std::ptr;

use crate::fake::state::with;

/// Records the call. Returns whether it shall succeed.
pub(super) fn call(function: &'static str) -> bool {
    let fails = with(|state| {
        state.took.push(function);
        state.failing == Some(function)
    });
    set_errno(if fails { libc::EINVAL } else { 0 });
    !fails
}

pub(super) fn set_errno(errno: c_int) {
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
}

pub(super) fn code(function: &'static str) -> c_int {
    if call(function) { 0 } else { libc::EINVAL }
}

/// Allocates an object, or returns null if the call shall fail.
pub(super) fn make<T>(function: &'static str, what: &'static str, value: T) -> *mut T {
    if !call(function) {
        return ptr::null_mut();
    }
    with(|state| state.alive.push(what));
    Box::into_raw(Box::new(value))
}

/// Frees an object.
///
/// # Safety
/// `made` came from [`make`] as this `what` and is not used any more.
pub(super) unsafe fn unmake<T>(function: &'static str, what: &'static str, made: *mut T) -> c_int {
    call(function);
    with(|state| {
        let at = state.alive.iter().position(|alive| *alive == what).expect("it is alive");
        state.alive.remove(at);
    });
    // SAFETY: the pointer comes from a box in `make`.
    drop(unsafe { Box::from_raw(made) });
    0
}

pub(super) fn event_fd() -> c_int {
    // SAFETY: no pointers are passed.
    unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }
}
