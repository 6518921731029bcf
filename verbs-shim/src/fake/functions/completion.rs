//! Completion queues and their channels.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::zeroed;

use super::call::{call, code, event_fd, make, set_errno, unmake};
use crate::abi::*;
use crate::fake::state::with;

pub(super) unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    let fd = event_fd();
    make("ibv_create_comp_channel", "channel", ibv_comp_channel { context, fd })
}

pub(super) unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe {
        libc::close((*channel).fd);
        unmake("ibv_destroy_comp_channel", "channel", channel)
    }
}

pub(super) unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    assert_eq!(vector, 0);
    let cq = make("ibv_create_cq", "cq", ibv_cq { context, channel, cq_context, handle: 0, cqe });
    with(|state| state.queues.make_cq(cq, cqe));
    cq
}

pub(super) unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    with(|state| state.queues.drop_cq(cq));
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_destroy_cq", "cq", cq) }
}

pub(super) unsafe extern "C" fn ibv_get_cq_event(
    _: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    let Some(next) = with(|state| state.notifications.pop_front()) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    // SAFETY: see the module `functions`.
    unsafe { *cq = next };
    0
}

pub(super) unsafe extern "C" fn ibv_ack_cq_events(_: *mut ibv_cq, count: c_uint) {
    (0..count).for_each(|_| _ = call("ibv_ack_cq_events"));
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int {
    if !call("poll_cq") {
        return -1;
    }
    let mut taken = 0;
    // SAFETY: all fields are integers.
    let told = |wr_id| ibv_wc { wr_id, ..unsafe { zeroed() } };
    while taken < room as usize
        && let Some(next) =
            with(|s| s.completions.pop_front().map(told).or_else(|| s.queues.poll(cq)))
    {
        // SAFETY: see the module `functions`; the array has `room` entries.
        unsafe { wc.add(taken).write(next) };
        taken += 1;
    }
    taken as c_int
}

pub(super) unsafe extern "C" fn req_notify_cq(_: *mut ibv_cq, solicited_only: c_int) -> c_int {
    assert_eq!(solicited_only, 0);
    code("req_notify_cq")
}
