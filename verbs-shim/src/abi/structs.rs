//! Structs of `infiniband/verbs.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

use super::declare::{opaque, structs};
use super::extended::{ibv_ah, ibv_device, ibv_pd, verbs_context};
use super::{CType, Extent, Layout};
use crate::sge::Sge;

opaque! { _compat_ibv_port_attr }

/// `ibv_context_ops.poll_cq`.
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
/// `ibv_context_ops.req_notify_cq`.
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
/// `ibv_context_ops.post_srq_recv`.
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
/// `ibv_context_ops.post_send`.
pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
/// `ibv_context_ops.post_recv`.
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
/// `verbs_context.query_port`.
pub type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int;

structs! {
    LAYOUTS:

    // The other member in C is two 64-bit numbers.
    #[repr(align(8))]
    ibv_gid (union Whole 16) { raw: [u8; 16] }

    ibv_device_attr (struct Whole 232) {
        fw_ver: [c_char; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: c_uint,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }

    ibv_port_attr (struct Prefix 52) {
        state: c_uint,
        max_mtu: c_uint,
        active_mtu: c_uint,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
    }

    ibv_async_event (struct Whole 16) { element: AsyncElement, event_type: c_uint }

    ibv_wc (struct Whole 48) {
        wr_id: u64,
        status: c_uint,
        opcode: c_uint,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }

    ibv_mr (struct Prefix 48) {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    ibv_global_route (struct Whole 24) {
        dgid: ibv_gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }

    ibv_ah_attr (struct Whole 32) {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }

    ibv_srq_attr (struct Whole 12) { max_wr: u32, max_sge: u32, srq_limit: u32 }

    ibv_srq_init_attr (struct Whole 24) { srq_context: *mut c_void, attr: ibv_srq_attr }

    ibv_qp_cap (struct Whole 20) {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }

    ibv_qp_init_attr (struct Whole 64) {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
    }

    ibv_qp_attr (struct Whole 144) {
        qp_state: c_uint,
        cur_qp_state: c_uint,
        path_mtu: c_uint,
        path_mig_state: c_uint,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: c_uint,
        cap: ibv_qp_cap,
        ah_attr: ibv_ah_attr,
        alt_ah_attr: ibv_ah_attr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }

    ibv_send_wr (struct Whole 128) {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut Sge,
        num_sge: c_int,
        opcode: c_uint,
        send_flags: c_uint,
        imm_data: u32,
        wr: SendTarget,
        qp_type: u32,
        bind_mw: [usize; 6],
    }

    ibv_recv_wr (struct Whole 32) {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut Sge,
        num_sge: c_int,
    }

    ibv_srq (struct Prefix 8) { context: *mut ibv_context }

    ibv_qp (struct Prefix 64) {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        handle: u32,
        qp_num: u32,
        state: c_uint,
        qp_type: c_uint,
    }

    ibv_comp_channel (struct Prefix 16) { context: *mut ibv_context, fd: c_int }

    ibv_cq (struct Prefix 32) {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
    }

    ibv_context_ops (struct Whole 256) {
        _compat_query_device: Slot,
        _compat_query_port: Slot,
        _compat_alloc_pd: Slot,
        _compat_dealloc_pd: Slot,
        _compat_reg_mr: Slot,
        _compat_rereg_mr: Slot,
        _compat_dereg_mr: Slot,
        alloc_mw: Slot,
        bind_mw: Slot,
        dealloc_mw: Slot,
        _compat_create_cq: Slot,
        poll_cq: Option<PollCq>,
        req_notify_cq: Option<ReqNotifyCq>,
        _compat_cq_event: Slot,
        _compat_resize_cq: Slot,
        _compat_destroy_cq: Slot,
        _compat_create_srq: Slot,
        _compat_modify_srq: Slot,
        _compat_query_srq: Slot,
        _compat_destroy_srq: Slot,
        post_srq_recv: Option<PostSrqRecv>,
        _compat_create_qp: Slot,
        _compat_query_qp: Slot,
        _compat_modify_qp: Slot,
        _compat_destroy_qp: Slot,
        post_send: Option<PostSend>,
        post_recv: Option<PostRecv>,
        _compat_create_ah: Slot,
        _compat_destroy_ah: Slot,
        _compat_attach_mcast: Slot,
        _compat_detach_mcast: Slot,
        _compat_async_event: Slot,
    }

    ibv_context (struct Whole 328) {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: libc::pthread_mutex_t,
        abi_compat: *mut c_void,
    }
}

/// A function pointer that is never called.
pub type Slot = *mut c_void;

/// `ibv_async_event.element`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub union AsyncElement {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub srq: *mut ibv_srq,
    pub port_num: c_int,
}

/// `ibv_send_wr.wr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub union SendTarget {
    pub rdma: Rdma,
    pub atomic: Atomic,
    pub ud: Ud,
}

/// `ibv_send_wr.wr.rdma`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// `ibv_send_wr.wr.atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// `ibv_send_wr.wr.ud`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// C expressions and their values, for nested fields.
pub const EXPRESSIONS: &[(&str, usize)] = &[
    (
        "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_port)",
        offset_of!(verbs_context, context) - offset_of!(verbs_context, query_port),
    ),
    (
        "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz)",
        offset_of!(verbs_context, context) - offset_of!(verbs_context, sz),
    ),
    ("offsetof(struct ibv_async_event, element.port_num)", 0),
    (
        "offsetof(struct ibv_send_wr, wr.rdma.remote_addr)",
        offset_of!(ibv_send_wr, wr.rdma.remote_addr),
    ),
    ("offsetof(struct ibv_send_wr, wr.rdma.rkey)", offset_of!(ibv_send_wr, wr.rdma.rkey)),
    ("offsetof(struct ibv_send_wr, wr.ud.ah)", offset_of!(ibv_send_wr, wr.ud.ah)),
    ("offsetof(struct ibv_send_wr, wr.ud.remote_qpn)", offset_of!(ibv_send_wr, wr.ud.remote_qpn)),
    ("offsetof(struct ibv_send_wr, wr.ud.remote_qkey)", offset_of!(ibv_send_wr, wr.ud.remote_qkey)),
    ("sizeof(struct ibv_sge)", size_of::<Sge>()),
    ("offsetof(struct ibv_sge, addr)", offset_of!(Sge, addr)),
    ("offsetof(struct ibv_sge, length)", offset_of!(Sge, len)),
    ("offsetof(struct ibv_sge, lkey)", offset_of!(Sge, lkey)),
];
