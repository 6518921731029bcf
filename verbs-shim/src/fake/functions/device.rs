//! Devices: opening, queries and events.

use std::ffi::{c_char, c_int};
use std::mem::{offset_of, size_of, zeroed};
use std::ptr;

use super::call::{call, code, event_fd, make, set_errno, unmake};
use super::completion::{poll_cq, req_notify_cq};
use super::post::{post_recv, post_send, post_srq_recv};
use crate::abi::*;
use crate::fake::state::{Extension, with};

pub(super) unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: see the module `functions`.
    unsafe { *count = 1 };
    make("ibv_get_device_list", "list", ptr::without_provenance_mut::<ibv_device>(8))
}

pub(super) unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: see the module `functions`.
    unsafe { unmake("ibv_free_device_list", "list", list) };
}

pub(super) unsafe extern "C" fn ibv_get_device_name(_: *mut ibv_device) -> *const c_char {
    c"fake0".as_ptr()
}

pub(super) unsafe extern "C" fn ibv_open_device(_: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: all fields are integers, pointers and optional functions, for which zeros are valid.
    let mut whole: verbs_context = unsafe { zeroed() };
    let extension = with(|state| state.extension);
    whole.query_port = Some(query_port);
    whole.sz = size_of::<verbs_context>()
        - match extension {
            Extension::Short => offset_of!(verbs_context, advise_mr),
            Extension::Full | Extension::None => 0,
        };
    if extension != Extension::None {
        whole.context.abi_compat = ptr::without_provenance_mut(usize::MAX);
    }
    whole.context.async_fd = event_fd();
    whole.context.ops.poll_cq = Some(poll_cq);
    whole.context.ops.req_notify_cq = Some(req_notify_cq);
    whole.context.ops.post_send = Some(post_send);
    whole.context.ops.post_recv = Some(post_recv);
    whole.context.ops.post_srq_recv = Some(post_srq_recv);
    let whole = make("ibv_open_device", "context", whole);
    match whole.is_null() {
        true => ptr::null_mut(),
        // SAFETY: `whole` is a valid pointer from `make`.
        false => unsafe { &raw mut (*whole).context },
    }
}

pub(super) unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: see the module `functions`; the context is inside the allocation.
    unsafe {
        libc::close((*context).async_fd);
        let whole = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        unmake("ibv_close_device", "context", whole)
    }
}

pub(super) unsafe extern "C" fn ibv_get_async_event(
    _: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    if !call("ibv_get_async_event") {
        return -1;
    }
    let Some((event_type, bits)) = with(|state| state.events.pop_front()) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    let element = AsyncElement { qp: ptr::with_exposed_provenance_mut(bits) };
    // SAFETY: see the module `functions`.
    unsafe { event.write(ibv_async_event { element, event_type }) };
    0
}

pub(super) unsafe extern "C" fn ibv_ack_async_event(_: *mut ibv_async_event) {
    call("ibv_ack_async_event");
}

pub(super) unsafe extern "C" fn ibv_query_device(
    _: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe {
        ((*attr).phys_port_cnt, (*attr).max_qp) = (1, 100);
        // The limits of Soft-RoCE.
        ((*attr).max_cqe, (*attr).max_sge) = (32_767, 32);
    }
    code("ibv_query_device")
}

/// Fills in the attributes of a port.
///
/// # Safety
/// `attr` points to an `ibv_port_attr`.
unsafe fn describe_port(attr: *mut ibv_port_attr) {
    // SAFETY: see the module `functions`.
    let attr = unsafe { &mut *attr };
    attr.state = IBV_PORT_ACTIVE;
    (attr.max_mtu, attr.active_mtu) = (IBV_MTU_4096, IBV_MTU_1024);
    attr.gid_tbl_len = 4;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
}

pub(super) unsafe extern "C" fn ibv_query_port(
    _: *mut ibv_context,
    _: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: see the module `functions`.
    unsafe { describe_port(attr.cast()) };
    code("ibv_query_port")
}

pub(super) unsafe extern "C" fn query_port(
    _: *mut ibv_context,
    _: u8,
    attr: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    assert_eq!(len, size_of::<ibv_port_attr>());
    // SAFETY: see the module `functions`.
    unsafe { describe_port(attr) };
    code("query_port")
}

pub(super) unsafe extern "C" fn ibv_query_gid(
    _: *mut ibv_context,
    _: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let ip = match index {
        0 => "fe80::1",
        1 | 2 => "::ffff:10.0.0.1",
        _ => "::",
    };
    let address: std::net::Ipv6Addr = ip.parse().expect("an address");
    // SAFETY: see the module `functions`.
    unsafe { gid.write(ibv_gid { raw: address.octets() }) };
    code("ibv_query_gid")
}
