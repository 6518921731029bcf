//! Functions exported by libibverbs, each with the symbol version of its present form.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::*;

/// An exported function in C.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name of the function.
    pub name: &'static str,
    /// Writes a C declaration of a pointer to it; see [`CType::declare`].
    pub declare: fn(&str) -> String,
}

macro_rules! functions {
    ($($name:ident $version:literal: $type:ty;)*) => {
        /// The functions, found.
        #[derive(Clone, Copy)]
        #[allow(missing_docs)]
        pub struct Symbols {
            $(pub $name: $type,)*
        }

        impl Symbols {
            /// Looks up all functions. The error is the name of the first one that is missing.
            ///
            /// # Safety
            /// `find` returns null, or the address of the function with this name and symbol
            /// version in libibverbs.
            pub unsafe fn find(
                find: impl Fn(&'static CStr, &'static CStr) -> *mut c_void,
            ) -> Result<Self, &'static str> {
                let find = |name: &'static str, version: &'static str| {
                    let terminated = |text: &'static str| {
                        CStr::from_bytes_with_nul(text.as_bytes()).expect("the macro adds the nul")
                    };
                    find(terminated(name), terminated(version))
                };
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        let address = find(name, concat!($version, "\0"));
                        // SAFETY: the caller guarantees the address; `Option` of a function is null
                        // or an address.
                        unsafe { std::mem::transmute::<*mut c_void, Option<$type>>(address) }
                            .ok_or(stringify!($name))?
                    },)*
                })
            }
        }

        /// All functions above.
        pub const FUNCTIONS: &[Function] = &[
            $(Function { name: stringify!($name), declare: <$type as CType>::declare },)*
        ];
    };
}

functions! {
    ibv_get_device_list "IBVERBS_1.1":
        unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list "IBVERBS_1.1": unsafe extern "C" fn(*mut *mut ibv_device);
    ibv_get_device_name "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_device) -> *const c_char;
    ibv_open_device "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_context) -> c_int;
    ibv_get_async_event "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ibv_ack_async_event "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_async_event);
    ibv_query_device "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int;
    ibv_query_gid "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    ibv_alloc_pd "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel "IBVERBS_1.0":
        unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel "IBVERBS_1.0":
        unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq "IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int,
        ) -> *mut ibv_cq;
    ibv_destroy_cq "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event "IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void,
        ) -> c_int;
    ibv_ack_cq_events "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_cq, c_uint);
    ibv_create_srq "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_destroy_srq "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_srq) -> c_int;
    ibv_create_qp "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp "IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr,
        ) -> c_int;
    ibv_destroy_qp "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_qp) -> c_int;
    ibv_create_ah "IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_destroy_ah "IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_ah) -> c_int;
}
