//! What there is not: multicast, sharing of objects between processes, vendor extensions. And forking, for which nothing is
//! needed: no memory is pinned, and a child has no engine.

use std::ffi::{c_char, c_int, c_void};

use braid_verbs::abi::{ibv_context, ibv_gid, ibv_mr, ibv_pd, ibv_qp};

use crate::errno::{self, Errno};

/// `IBV_FORK_UNNEEDED`.
const FORK_UNNEEDED: c_int = 2;

/// Functions that return an errno value.
macro_rules! unsupported {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> c_int {
            errno::code(|| Err(Errno::UNSUPPORTED))
        })*
    };
}

unsupported! {
    ibv_attach_mcast(_qp: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16);
    ibv_detach_mcast(_qp: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16);
    ibv_query_ece(_qp: *mut ibv_qp, _ece: *mut c_void);
    ibv_set_ece(_qp: *mut ibv_qp, _ece: *mut c_void);
    ibv_dealloc_dmah(_dmah: *mut c_void);
    ibv_resolve_eth_l2_from_gid(
        _context: *mut ibv_context, _attr: *mut c_void, _mac: *mut u8, _vlan: *mut u16
    );
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_device(_fd: c_int) -> *mut ibv_context {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_pd(_context: *mut ibv_context, _handle: u32) -> *mut ibv_pd {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_mr(_pd: *mut ibv_pd, _handle: u32) -> *mut ibv_mr {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_dm(_context: *mut ibv_context, _handle: u32) -> *mut c_void {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

/// A hint for transfers of a NIC.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_dmah(_context: *mut ibv_context, _attr: *mut c_void) -> *mut c_void {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

/// There is no device memory that could be exported.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dm_export_dmabuf_fd(_dm: *mut c_void) -> c_int {
    errno::number(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_pd(_pd: *mut ibv_pd) {}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_mr(_mr: *mut ibv_mr) {}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_dm(_dm: *mut c_void) {}

/// 0: data may land in any order.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: c_int, _flags: u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    FORK_UNNEEDED
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Where sysfs is mounted.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// -1: there are no files of devices.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_read_sysfs_file(
    _folder: *const c_char,
    _file: *const c_char,
    _text: *mut c_char,
    _size: usize,
) -> c_int {
    errno::number(|| Err(Errno(libc::ENOENT)))
}

/// Defines what the kernel's structures would be copied by, which no kernel device fills.
macro_rules! never_called {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_to: *mut c_void, _from: *mut c_void) {}
        )*
    };
}

never_called! {
    ibv_copy_ah_attr_from_kern ibv_copy_qp_attr_from_kern ibv_copy_path_rec_from_kern
    ibv_copy_path_rec_to_kern
}

/// What providers call (`IBVERBS_PRIVATE_34`). Programs that link a provider, as perftest and UCX do, do not start without
/// these; no provider is ever asked to drive a device of this library.
macro_rules! provider_interface {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            errno::code(|| Err(Errno::UNSUPPORTED))
        })*
    };
}

provider_interface! {
    __ioctl_final_num_attrs __verbs_log _verbs_init_and_alloc_context execute_ioctl ibv_cmd_advise_mr ibv_cmd_alloc_dm
    ibv_cmd_alloc_mw ibv_cmd_alloc_pd ibv_cmd_attach_mcast ibv_cmd_close_xrcd ibv_cmd_create_ah ibv_cmd_create_counters
    ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_cq_ex2 ibv_cmd_create_flow ibv_cmd_create_flow_action_esp ibv_cmd_create_qp
    ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2 ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq ibv_cmd_create_srq_ex
    ibv_cmd_create_wq ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah ibv_cmd_destroy_counters
    ibv_cmd_destroy_cq ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table
    ibv_cmd_destroy_srq ibv_cmd_destroy_wq ibv_cmd_detach_mcast ibv_cmd_free_dm ibv_cmd_get_context ibv_cmd_modify_cq
    ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq ibv_cmd_modify_wq
    ibv_cmd_open_qp ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv ibv_cmd_post_send ibv_cmd_post_srq_recv
    ibv_cmd_query_context ibv_cmd_query_device_any ibv_cmd_query_mr ibv_cmd_query_port ibv_cmd_query_qp ibv_cmd_query_srq
    ibv_cmd_read_counters ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr ibv_cmd_req_notify_cq ibv_cmd_rereg_mr
    ibv_cmd_resize_cq ibv_query_gid_type ibv_read_ibdev_sysfs_file verbs_init_cq verbs_open_device
    verbs_register_driver_34 verbs_set_ops verbs_uninit_context
}

/// A flag of the provider interface.
#[unsafe(no_mangle)]
pub static verbs_allow_disassociate_destroy: bool = false;
