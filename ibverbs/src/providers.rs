//! The interface between libibverbs and its providers. The library never uses a provider: every
//! device belongs to the engine.
//!
//! Programs such as perftest and UCX link a provider. They start only if the dynamic linker finds
//! the version with which the provider was built, and in it every function that the provider calls.
//! rdma-core changes the version whenever it changes the interface, so each release has another
//! one. A name has to exist once for each version. A version script cannot express that, because it
//! gives a symbol one version. So the symbols contain their versions, and `libibverbs.map` lists
//! the versions only.

use std::ffi::{c_char, c_int, c_uint};

use braid_verbs::abi::ibv_context;

use crate::errno::{self, Errno};
use crate::{names, query};

/// Defines every name in every version, also in versions that did not have it yet.
macro_rules! versions {
    ($($module:ident $version:literal)*; $names:tt) => {
        $(mod $module {
            use super::*;

            version! { $version $names }
        })*
    };
}

/// Defines the names of a version: functions that return an errno value, functions that programs of
/// rdma-core or a provider call when they are loaded, and a flag.
macro_rules! version {
    ($version:literal ($($name:ident)*)) => {
        $(#[unsafe(export_name = concat!(stringify!($name), "@IBVERBS_PRIVATE_", $version))]
        extern "C" fn $name() -> c_int {
            errno::code(|| Err(Errno::UNSUPPORTED))
        })*

        #[unsafe(export_name = concat!(
            "verbs_register_driver_", $version, "@IBVERBS_PRIVATE_", $version
        ))]
        extern "C" fn verbs_register_driver() {}

        #[unsafe(export_name = concat!("ibv_query_gid_type@IBVERBS_PRIVATE_", $version))]
        unsafe extern "C" fn ibv_query_gid_type(
            context: *mut ibv_context,
            port: u8,
            index: c_uint,
            kind: *mut c_uint,
        ) -> c_int {
            // SAFETY: by the caller's promise.
            unsafe { query::gid_type(context, port, index, kind) }
        }

        #[unsafe(export_name = concat!("ibv_wr_opcode_str@IBVERBS_PRIVATE_", $version))]
        extern "C" fn ibv_wr_opcode_str(opcode: c_int) -> *const c_char {
            names::operation(opcode)
        }

        #[unsafe(export_name = concat!(
            "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_", $version
        ))]
        static ALLOW_DISASSOCIATE_DESTROY: bool = false;
    };
}

versions! {
    rdma_core_34 "34" rdma_core_57 "57" rdma_core_59 "59" rdma_core_64 "64" rdma_core_65 "65";
    (
    __ioctl_final_num_attrs __verbs_log _verbs_init_and_alloc_context execute_ioctl
    ibv_cmd_advise_mr ibv_cmd_alloc_dm ibv_cmd_alloc_dmah ibv_cmd_alloc_mw ibv_cmd_alloc_pd
    ibv_cmd_attach_mcast ibv_cmd_close_xrcd ibv_cmd_create_ah ibv_cmd_create_comp_cntr
    ibv_cmd_create_counters ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_cq_ex2
    ibv_cmd_create_flow ibv_cmd_create_flow_action_esp ibv_cmd_create_qp ibv_cmd_create_qp_ex
    ibv_cmd_create_qp_ex2 ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq ibv_cmd_create_srq_ex
    ibv_cmd_create_wq ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah
    ibv_cmd_destroy_comp_cntr ibv_cmd_destroy_counters ibv_cmd_destroy_cq ibv_cmd_destroy_flow
    ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table ibv_cmd_destroy_srq
    ibv_cmd_destroy_wq ibv_cmd_detach_mcast ibv_cmd_export_dmabuf_fd ibv_cmd_free_dm
    ibv_cmd_free_dmah ibv_cmd_get_context ibv_cmd_inc_comp_cntr ibv_cmd_inc_err_comp_cntr
    ibv_cmd_modify_cq ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp ibv_cmd_modify_qp_ex
    ibv_cmd_modify_srq ibv_cmd_modify_wq ibv_cmd_open_qp ibv_cmd_open_xrcd ibv_cmd_poll_cq
    ibv_cmd_post_recv ibv_cmd_post_send ibv_cmd_post_srq_recv ibv_cmd_qp_attach_comp_cntr
    ibv_cmd_query_comp_cntr_caps ibv_cmd_query_context ibv_cmd_query_device ibv_cmd_query_device_any
    ibv_cmd_query_mr ibv_cmd_query_port ibv_cmd_query_port_speed ibv_cmd_query_qp ibv_cmd_query_srq
    ibv_cmd_read_comp_cntr ibv_cmd_read_counters ibv_cmd_read_err_comp_cntr ibv_cmd_reg_dm_mr
    ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr ibv_cmd_reg_mr_ex ibv_cmd_req_notify_cq ibv_cmd_rereg_mr
    ibv_cmd_resize_cq ibv_cmd_set_comp_cntr ibv_cmd_set_err_comp_cntr ibv_dmabuf_heap_alloc
    ibv_dmabuf_heap_cc_shared_init ibv_dmabuf_heap_destroy ibv_dmabuf_heap_free
    ibv_read_ibdev_sysfs_file verbs_init_cq verbs_open_device verbs_set_ops verbs_uninit_context)
}
