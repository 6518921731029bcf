//! The functions of the fake library, and their common parts.
//!
//! SAFETY of all unsafe code in here: only this crate calls these functions, with pointers that
//! they returned, or to memory of the types in their prototypes.

mod completion;
mod device;
mod memory;
mod post;
mod queue_pair;

use std::ffi::c_int;
use std::ptr;

use self::completion::*;
use self::device::*;
use self::memory::*;
use self::queue_pair::*;
use super::with;
use crate::abi::*;

/// Records the call. Returns whether it shall succeed.
fn call(function: &'static str) -> bool {
    let fails = with(|state| {
        state.took.push(function);
        state.failing == Some(function)
    });
    set_errno(if fails { libc::EINVAL } else { 0 });
    !fails
}

fn set_errno(errno: c_int) {
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
}

fn code(function: &'static str) -> c_int {
    if call(function) { 0 } else { libc::EINVAL }
}

/// Allocates an object, or returns null if the call shall fail.
fn make<T>(function: &'static str, what: &'static str, value: T) -> *mut T {
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
unsafe fn unmake<T>(function: &'static str, what: &'static str, made: *mut T) -> c_int {
    call(function);
    with(|state| {
        let at = state.alive.iter().position(|alive| *alive == what).expect("it is alive");
        state.alive.remove(at);
    });
    // SAFETY: the pointer comes from a box in `make`.
    drop(unsafe { Box::from_raw(made) });
    0
}

fn event_fd() -> c_int {
    // SAFETY: no pointers are passed.
    unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }
}

pub(super) static SYMBOLS: Symbols = Symbols {
    ibv_get_device_list,
    ibv_free_device_list,
    ibv_get_device_name,
    ibv_open_device,
    ibv_close_device,
    ibv_get_async_event,
    ibv_ack_async_event,
    ibv_query_device,
    ibv_query_port,
    ibv_query_gid,
    ibv_alloc_pd,
    ibv_dealloc_pd,
    ibv_reg_mr,
    ibv_dereg_mr,
    ibv_create_comp_channel,
    ibv_destroy_comp_channel,
    ibv_create_cq,
    ibv_destroy_cq,
    ibv_get_cq_event,
    ibv_ack_cq_events,
    ibv_create_srq,
    ibv_destroy_srq,
    ibv_create_qp,
    ibv_modify_qp,
    ibv_query_qp,
    ibv_destroy_qp,
    ibv_create_ah,
    ibv_destroy_ah,
};
