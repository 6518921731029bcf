//! Queue pairs, shared receive queues and address handles.

use std::ffi::c_int;

use super::call::{call, code, make, unmake};
use crate::abi::*;
use crate::fake::state::with;

pub(super) unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: see the module `functions`.
    assert!(unsafe { (*init).attr.max_wr } > 0);
    // SAFETY: see the module `functions`.
    let context = unsafe { *pd.cast::<*mut ibv_context>() };
    make("ibv_create_srq", "srq", ibv_srq { context })
}

pub(super) unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_destroy_srq", "srq", srq) }
}

pub(super) unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: see the module `functions`.
    let (context, init) = unsafe { (*pd.cast::<*mut ibv_context>(), &mut *init) };
    // Devices round the size up.
    init.cap.max_inline_data = init.cap.max_inline_data.next_multiple_of(60);
    let qp = ibv_qp {
        context,
        qp_context: init.qp_context,
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: 0,
        qp_num: with(|state| state.queues.make_qp(init)),
        state: IBV_QPS_RESET,
        qp_type: init.qp_type,
    };
    make("ibv_create_qp", "qp", qp)
}

pub(super) unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    if !call("ibv_modify_qp") {
        return libc::EINVAL;
    }
    // SAFETY: see the module `functions`.
    let attr = unsafe { *attr };
    with(|state| state.modified.push((mask as u32, attr)));
    // SAFETY: see the module `functions`.
    let number = unsafe {
        (*qp).state = attr.qp_state;
        (*qp).qp_num
    };
    if attr.qp_state == IBV_QPS_RESET {
        with(|state| state.queues.reset(number));
    }
    0
}

pub(super) unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _: c_int,
    _: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { (*attr).qp_state = (*qp).state };
    code("ibv_query_qp")
}

pub(super) unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: see the module `functions`.
    let number = unsafe { (*qp).qp_num };
    with(|state| state.queues.drop_qp(number));
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_destroy_qp", "qp", qp) }
}

pub(super) unsafe extern "C" fn ibv_create_ah(
    _: *mut ibv_pd,
    attr: *mut ibv_ah_attr,
) -> *mut ibv_ah {
    // SAFETY: see the module `functions`.
    make("ibv_create_ah", "ah", unsafe { *attr }).cast()
}

pub(super) unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_destroy_ah", "ah", ah.cast::<ibv_ah_attr>()) }
}
