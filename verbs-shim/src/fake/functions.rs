//! The functions of the fake library.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of, zeroed};
use std::{ptr, slice};

use super::{Extension, Sent, with};
use crate::Sge;
use crate::abi::*;

/// Notes the call; whether it is to succeed.
fn call(function: &'static str) -> bool {
    let fails = with(|state| {
        state.took.push(function);
        state.failing == Some(function)
    });
    set_errno(if fails { libc::EINVAL } else { 0 });
    !fails
}

fn set_errno(errno: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

fn code(function: &'static str) -> c_int {
    if call(function) { 0 } else { libc::EINVAL }
}

/// Makes something, or returns null where the call is to fail.
fn make<T>(function: &'static str, what: &'static str, value: T) -> *mut T {
    if !call(function) {
        return ptr::null_mut();
    }
    with(|state| state.alive.push(what));
    Box::into_raw(Box::new(value))
}

/// # Safety
/// `made` came from [`make`] as this `what` and is not used any more.
unsafe fn unmake<T>(function: &'static str, what: &'static str, made: *mut T) -> c_int {
    call(function);
    with(|state| {
        let at = state.alive.iter().position(|alive| *alive == what).expect("it is alive");
        state.alive.remove(at);
    });
    // SAFETY: `make` has boxed it.
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
    ibv_reg_dmabuf_mr: None,
};

// SAFETY of all that follows: only this crate calls these functions, with pointers that they have made
// themselves, or to memory of the types that their prototypes name.

unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: see above.
    unsafe { *count = 1 };
    make("ibv_get_device_list", "list", ptr::without_provenance_mut::<ibv_device>(8))
}

unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: see above.
    unsafe { unmake("ibv_free_device_list", "list", list) };
}

unsafe extern "C" fn ibv_get_device_name(_: *mut ibv_device) -> *const c_char {
    c"fake0".as_ptr()
}

unsafe extern "C" fn ibv_open_device(_: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: all of its fields are integers, pointers and optional functions, for which zeros are values.
    let mut whole: verbs_context = unsafe { zeroed() };
    let extension = with(|state| state.extension);
    whole.query_port = Some(query_port);
    whole.sz = size_of::<verbs_context>()
        - match extension {
            Extension::Short => offset_of!(verbs_context, between),
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
        // SAFETY: it was just made.
        false => unsafe { &raw mut (*whole).context },
    }
}

unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: see above; the context is inside what was made.
    unsafe {
        libc::close((*context).async_fd);
        let whole = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        unmake("ibv_close_device", "context", whole)
    }
}

unsafe extern "C" fn ibv_get_async_event(
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
    // SAFETY: see above.
    unsafe { event.write(ibv_async_event { element, event_type }) };
    0
}

unsafe extern "C" fn ibv_ack_async_event(_: *mut ibv_async_event) {
    call("ibv_ack_async_event");
}

unsafe extern "C" fn ibv_query_device(_: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: see above.
    unsafe {
        ((*attr).phys_port_cnt, (*attr).max_qp) = (1, 100);
        // As Soft-RoCE's.
        ((*attr).max_cqe, (*attr).max_sge) = (32_767, 32);
    }
    code("ibv_query_device")
}

/// # Safety
/// `attr` points to one.
unsafe fn describe_port(attr: *mut ibv_port_attr) {
    // SAFETY: see above.
    let attr = unsafe { &mut *attr };
    attr.state = IBV_PORT_ACTIVE;
    (attr.max_mtu, attr.active_mtu) = (IBV_MTU_4096, IBV_MTU_1024);
    attr.gid_tbl_len = 4;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
}

unsafe extern "C" fn ibv_query_port(
    _: *mut ibv_context,
    _: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: see above.
    unsafe { describe_port(attr.cast()) };
    code("ibv_query_port")
}

unsafe extern "C" fn query_port(
    _: *mut ibv_context,
    _: u8,
    attr: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    assert_eq!(len, size_of::<ibv_port_attr>());
    // SAFETY: see above.
    unsafe { describe_port(attr) };
    code("query_port")
}

unsafe extern "C" fn ibv_query_gid(
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
    // SAFETY: see above.
    unsafe { gid.write(ibv_gid { raw: address.octets() }) };
    code("ibv_query_gid")
}

/// A domain is its context.
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    make("ibv_alloc_pd", "pd", context).cast()
}

unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: see above.
    unsafe { unmake("ibv_dealloc_pd", "pd", pd.cast::<*mut ibv_context>()) }
}

unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    _: c_int,
) -> *mut ibv_mr {
    let context = ptr::null_mut();
    let mr = ibv_mr { context, pd, addr, length, handle: 0, lkey: 0x11, rkey: 0x22 };
    make("ibv_reg_mr", "mr", mr)
}

unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: see above.
    unsafe { unmake("ibv_dereg_mr", "mr", mr) }
}

unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let fd = event_fd();
    make("ibv_create_comp_channel", "channel", ibv_comp_channel { context, fd })
}

unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: see above.
    unsafe {
        libc::close((*channel).fd);
        unmake("ibv_destroy_comp_channel", "channel", channel)
    }
}

unsafe extern "C" fn ibv_create_cq(
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

unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    with(|state| state.queues.drop_cq(cq));
    // SAFETY: see above.
    unsafe { unmake("ibv_destroy_cq", "cq", cq) }
}

unsafe extern "C" fn ibv_get_cq_event(
    _: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    let Some(next) = with(|state| state.notifications.pop_front()) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    // SAFETY: see above.
    unsafe { *cq = next };
    0
}

unsafe extern "C" fn ibv_ack_cq_events(_: *mut ibv_cq, count: c_uint) {
    (0..count).for_each(|_| _ = call("ibv_ack_cq_events"));
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int {
    if !call("poll_cq") {
        return -1;
    }
    let mut taken = 0;
    // SAFETY: all of its fields are integers.
    let told = |wr_id| ibv_wc { wr_id, ..unsafe { zeroed() } };
    while taken < room as usize
        && let Some(next) =
            with(|s| s.completions.pop_front().map(told).or_else(|| s.queues.poll(cq)))
    {
        // SAFETY: see above; there is room for `room`.
        unsafe { wc.add(taken).write(next) };
        taken += 1;
    }
    taken as c_int
}

unsafe extern "C" fn req_notify_cq(_: *mut ibv_cq, solicited_only: c_int) -> c_int {
    assert_eq!(solicited_only, 0);
    code("req_notify_cq")
}

unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: see above.
    assert!(unsafe { (*init).attr.max_wr } > 0);
    // SAFETY: see above.
    let context = unsafe { *pd.cast::<*mut ibv_context>() };
    make("ibv_create_srq", "srq", ibv_srq { context })
}

unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: see above.
    unsafe { unmake("ibv_destroy_srq", "srq", srq) }
}

unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: see above.
    let (context, init) = unsafe { (*pd.cast::<*mut ibv_context>(), &mut *init) };
    // Devices round up.
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

unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    if !call("ibv_modify_qp") {
        return libc::EINVAL;
    }
    // SAFETY: see above.
    let attr = unsafe { *attr };
    with(|state| state.modified.push((mask as u32, attr)));
    // SAFETY: see above.
    let number = unsafe {
        (*qp).state = attr.qp_state;
        (*qp).qp_num
    };
    if attr.qp_state == IBV_QPS_RESET {
        with(|state| state.queues.reset(number));
    }
    0
}

unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _: c_int,
    _: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: see above.
    unsafe { (*attr).qp_state = (*qp).state };
    code("ibv_query_qp")
}

unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: see above.
    let number = unsafe { (*qp).qp_num };
    with(|state| state.queues.drop_qp(number));
    // SAFETY: see above.
    unsafe { unmake("ibv_destroy_qp", "qp", qp) }
}

unsafe extern "C" fn ibv_create_ah(_: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: see above.
    make("ibv_create_ah", "ah", unsafe { *attr }).cast()
}

unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: see above.
    unsafe { unmake("ibv_destroy_ah", "ah", ah.cast::<ibv_ah_attr>()) }
}

/// Whether there is room for one more work request.
fn take_room() -> bool {
    with(|state| match state.room.checked_sub(1) {
        Some(left) => {
            state.room = left;
            true
        }
        None => false,
    })
}

unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    call("post_send");
    let mut next = first;
    while !next.is_null() {
        if !take_room() {
            // SAFETY: see above.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        // SAFETY: see above.
        let wr = unsafe { &*next };
        // SAFETY: a list of no entries may be anywhere, but is never null.
        let sges = unsafe { slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) }.to_vec();
        // SAFETY: both members are integers and raw pointers, so the bytes of the other are values, too.
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
        // SAFETY: see above.
        let number = unsafe { (*qp).qp_num };
        let is_signaled = wr.send_flags & IBV_SEND_SIGNALED != 0;
        let is_posted = with(|state| {
            let is_posted = state.queues.post_send(number, wr.wr_id, is_signaled);
            state.sent.extend(is_posted.then_some(sent));
            is_posted
        });
        if !is_posted {
            // SAFETY: see above.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        next = wr.next;
    }
    0
}

/// # Safety
/// `first` is a chain that ends in null, `bad` takes a pointer.
unsafe fn receive(
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    mut post: impl FnMut(u64, &[Sge]),
) -> c_int {
    let mut next = first;
    while !next.is_null() {
        if !take_room() {
            // SAFETY: see above.
            unsafe { *bad = next };
            return libc::ENOMEM;
        }
        // SAFETY: see above.
        let wr = unsafe { &*next };
        // SAFETY: a list of no entries may be anywhere, but is never null.
        post(wr.wr_id, unsafe { slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) });
        next = wr.next;
    }
    0
}

unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    call("post_recv");
    // SAFETY: see above.
    let number = unsafe { (*qp).qp_num };
    let post = |id, sges: &[Sge]| with(|state| state.queues.post_recv(number, id, sges));
    // SAFETY: see above.
    unsafe { receive(first, bad, post) }
}

unsafe extern "C" fn post_srq_recv(
    _: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    call("post_srq_recv");
    // SAFETY: see above.
    unsafe { receive(first, bad, |_, _| ()) }
}
