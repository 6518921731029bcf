//! Unsupported calls: multicast, sharing of objects between processes, vendor extensions. Forking
//! needs nothing: no memory is pinned, and a child has no engine.

use std::ffi::{c_char, c_int, c_void};

use braid_verbs::abi::{ibv_context, ibv_gid, ibv_mr, ibv_pd, ibv_qp};

use crate::errno::{self, Errno};

/// `IBV_FORK_UNNEEDED`.
const FORK_UNNEEDED: c_int = 2;

/// Defines functions that return an errno value.
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
    _ibv_query_comp_cntr_caps(_context: *mut ibv_context, _caps: *mut c_void, _size: usize);
    ibv_destroy_comp_cntr(_counter: *mut c_void);
    ibv_set_comp_cntr(_counter: *mut c_void, _value: u64);
    ibv_set_err_comp_cntr(_counter: *mut c_void, _value: u64);
    ibv_inc_comp_cntr(_counter: *mut c_void, _amount: u64);
    ibv_inc_err_comp_cntr(_counter: *mut c_void, _amount: u64);
    ibv_read_comp_cntr(_counter: *mut c_void, _value: *mut u64);
    ibv_read_err_comp_cntr(_counter: *mut c_void, _value: *mut u64);
    ibv_qp_attach_comp_cntr(_qp: *mut ibv_qp, _counter: *mut c_void, _attr: *mut c_void);
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

/// A hint for transfers of a NIC, which has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_dmah(_context: *mut ibv_context, _attr: *mut c_void) -> *mut c_void {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

/// A counter of completions without a queue.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_comp_cntr(
    _context: *mut ibv_context,
    _attr: *mut c_void,
) -> *mut c_void {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

/// Memory that a provider allocates for its device.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_buf(
    _pd: *mut ibv_pd,
    _size: usize,
    _buffer: *mut *mut c_void,
) -> *mut c_void {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_buf_mr(
    _pd: *mut ibv_pd,
    _buffer: *mut c_void,
    _addr: *mut c_void,
    _length: usize,
    _access: c_int,
) -> *mut ibv_mr {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_export_buf_dmabuf_fd(_buffer: *mut c_void) -> c_int {
    errno::number(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_free_buf(_buffer: *mut c_void) {}

/// The device has no memory that could be exported.
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

/// The mount point of sysfs.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// -1: the devices have no files.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_read_sysfs_file(
    _folder: *const c_char,
    _file: *const c_char,
    _text: *mut c_char,
    _size: usize,
) -> c_int {
    errno::number(|| Err(Errno(libc::ENOENT)))
}

/// Defines the functions that copy structures of the kernel. No program calls them, because no
/// kernel device is behind the library.
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
