//! Structs of `infiniband/verbs.h` that are used only by implementations of verbs, or by users of
//! the extended verbs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

use super::declare::structs;
use super::structs::{
    Slot, ibv_comp_channel, ibv_context, ibv_cq, ibv_device_attr, ibv_gid, ibv_qp_cap, ibv_srq,
};
use super::{CType, Extent, Layout, QueryPort};

structs! {
    EXTENDED_LAYOUTS:

    ibv_device (struct Whole 664) {
        _ops: [Slot; 2],
        node_type: c_int,
        transport_type: c_int,
        name: [c_char; 64],
        dev_name: [c_char; 64],
        dev_path: [c_char; 256],
        ibdev_path: [c_char; 256],
    }

    ibv_pd (struct Whole 16) { context: *mut ibv_context, handle: u32 }

    ibv_ah (struct Whole 24) { context: *mut ibv_context, pd: *mut ibv_pd, handle: u32 }

    ibv_gid_entry (struct Whole 32) {
        gid: ibv_gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }

    ibv_odp_caps (struct Whole 24) { general_caps: u64, per_transport_caps: [u32; 3] }

    ibv_device_attr_ex (struct Whole 400) {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: [u32; 2],
        rss_caps: [u64; 4],
        max_wq_type_rq: u32,
        packet_pacing_caps: [u32; 3],
        raw_packet_caps: u32,
        tm_caps: [u32; 5],
        cq_mod_caps: [u16; 2],
        max_dm_size: u64,
        pci_atomic_caps: [u16; 3],
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }

    ibv_cq_init_attr_ex (struct Whole 56) {
        cqe: u32,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: *mut ibv_pd,
    }

    ibv_qp_init_attr_ex (struct Whole 136) {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
        comp_mask: u32,
        pd: *mut ibv_pd,
        xrcd: *mut c_void,
        create_flags: u32,
        max_tso_header: u16,
        rwq_ind_tbl: *mut c_void,
        rx_hash_conf: [u64; 3],
        source_qpn: u32,
        send_ops_flags: u64,
    }

    // `qp_base` is an `ibv_qp` with the private fields of libibverbs.
    ibv_qp_ex (struct Prefix 352) {
        qp_base: [u64; 20],
        comp_mask: u64,
        wr_id: u64,
        wr_flags: c_uint,
        wr_atomic_cmp_swp: Slot,
        wr_atomic_fetch_add: Slot,
        wr_bind_mw: Slot,
        wr_local_inv: Slot,
        wr_rdma_read: Slot,
        wr_rdma_write: Slot,
        wr_rdma_write_imm: Slot,
        wr_send: Slot,
        wr_send_imm: Slot,
        wr_send_inv: Slot,
        wr_send_tso: Slot,
        wr_set_ud_addr: Slot,
        wr_set_xrc_srqn: Slot,
        wr_set_inline_data: Slot,
        wr_set_inline_data_list: Slot,
        wr_set_sge: Slot,
        wr_set_sge_list: Slot,
        wr_start: Slot,
        wr_complete: Slot,
        wr_abort: Slot,
        wr_atomic_write: Slot,
    }
}

/// The structure that contains an `ibv_context` whose `abi_compat` is all ones. It grows at its
/// front, so only offsets from its end are meaningful. `sz` is its length in bytes.
#[repr(C)]
#[allow(non_camel_case_types, missing_docs)]
pub struct verbs_context {
    pub query_port: Option<QueryPort>,
    pub advise_mr: Slot,
    pub alloc_null_mr: Slot,
    pub read_counters: Slot,
    pub attach_counters_point_flow: Slot,
    pub create_counters: Slot,
    pub destroy_counters: Slot,
    pub reg_dm_mr: Slot,
    pub alloc_dm: Slot,
    pub free_dm: Slot,
    pub modify_flow_action_esp: Slot,
    pub destroy_flow_action: Slot,
    pub create_flow_action_esp: Slot,
    pub modify_qp_rate_limit: Slot,
    pub alloc_parent_domain: Slot,
    pub dealloc_td: Slot,
    pub alloc_td: Slot,
    pub modify_cq: Slot,
    pub post_srq_ops: Slot,
    pub destroy_rwq_ind_table: Slot,
    pub create_rwq_ind_table: Slot,
    pub destroy_wq: Slot,
    pub modify_wq: Slot,
    pub create_wq: Slot,
    pub query_rt_values: Slot,
    pub create_cq_ex: Slot,
    pub private: Slot,
    pub query_device_ex: Slot,
    pub ibv_destroy_flow: Slot,
    pub _placeholder2: Slot,
    pub ibv_create_flow: Slot,
    pub _placeholder1: Slot,
    pub open_qp: Slot,
    pub create_qp_ex: Slot,
    pub get_srq_num: Slot,
    pub create_srq_ex: Slot,
    pub open_xrcd: Slot,
    pub close_xrcd: Slot,
    pub _abi_placeholder3: u64,
    pub sz: usize,
    pub context: ibv_context,
}
