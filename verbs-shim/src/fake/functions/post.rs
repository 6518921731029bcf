//! Work requests.

use std::ffi::c_int;
use std::slice;

use super::call::call;
use crate::Sge;
use crate::abi::*;
use crate::fake::state::{Sent, with};

/// Takes room for one more work request. Returns whether there was any.
fn take_room() -> bool {
    with(|state| match state.room.checked_sub(1) {
        Some(left) => {
            state.room = left;
            true
        }
        None => false,
    })
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    call("post_send");
    let mut next = first;
    while !next.is_null() {
        if !take_room() {
            // SAFETY: see the module `functions`.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        // SAFETY: see the module `functions`.
        let wr = unsafe { &*next };
        // SAFETY: an empty list may have any address, but never null.
        let sges = unsafe { slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) }.to_vec();
        // SAFETY: both members are integers and raw pointers, so all bytes are valid for either.
        let (rdma, ud) = unsafe { (wr.wr.rdma, wr.wr.ud) };
        let sent = Sent {
            id: wr.wr_id,
            opcode: wr.opcode,
            flags: wr.send_flags,
            imm: wr.imm_data.to_ne_bytes(),
            sges,
            rdma: (rdma.remote_addr, rdma.rkey),
            ud: (ud.ah, ud.remote_qpn, ud.remote_qkey),
        };
        // SAFETY: see the module `functions`.
        let number = unsafe { (*qp).qp_num };
        let is_signaled = wr.send_flags & IBV_SEND_SIGNALED != 0;
        let is_posted = with(|state| {
            let is_posted = state.queues.post_send(number, wr.wr_id, is_signaled);
            state.sent.extend(is_posted.then_some(sent));
            is_posted
        });
        if !is_posted {
            // SAFETY: see the module `functions`.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        next = wr.next;
    }
    0
}

/// Posts a chain of receives.
///
/// # Safety
/// `first` is a chain that ends in null, and `bad` receives a pointer.
unsafe fn receive(
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    mut post: impl FnMut(u64, &[Sge]),
) -> c_int {
    let mut next = first;
    while !next.is_null() {
        if !take_room() {
            // SAFETY: see the module `functions`.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        // SAFETY: see the module `functions`.
        let wr = unsafe { &*next };
        // SAFETY: an empty list may have any address, but never null.
        post(wr.wr_id, unsafe { slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) });
        next = wr.next;
    }
    0
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    call("post_recv");
    // SAFETY: see the module `functions`.
    let number = unsafe { (*qp).qp_num };
    let post = |id, sges: &[Sge]| with(|state| state.queues.post_recv(number, id, sges));
    // SAFETY: see the module `functions`.
    unsafe { receive(first, bad, post) }
}

pub(super) unsafe extern "C" fn post_srq_recv(
    _: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    call("post_srq_recv");
    // SAFETY: see the module `functions`.
    unsafe { receive(first, bad, |_, _| ()) }
}
