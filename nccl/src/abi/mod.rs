//! NCCL's side: the tables `ncclNetPlugin_v6` to `ncclNetPlugin_v12`.
//!
//! Each version's file holds what differs there: layouts, and translations of arguments. What all do
//! is in `calls` (the calls by their newest form) and `boundary` (errors and panics become codes). The
//! layouts are those of NCCL's `net_vN.h`, stated anew; `tests/layout.rs` and `nccl-conformance` hold
//! them against numbers and against a second statement.

mod boundary;
mod calls;
mod describe;
mod virtual_device;

pub mod v10;
pub mod v11;
pub mod v12;
pub mod v6;
pub mod v7;
pub mod v8;
pub mod v9;

use std::ffi::{c_char, c_int};

pub use self::virtual_device::VirtualDevice;
pub use crate::log::Logger;
pub use crate::profiler::{Callback as ProfilerCallback, Description, PLUGIN_ID};

/// `ncclResult_t`.
pub type Code = c_int;

/// `ncclNetCommConfig_v10_t` and those of v11 and v12, which are the same.
#[repr(C)]
#[derive(Debug)]
pub struct CommConfig {
    /// -1: none is asked for. Braid sends all in one class.
    pub traffic_class: c_int,
}

/// What every table calls the plugin.
const NAME: *const c_char = c"Braid".as_ptr();

/// `NCCL_NET_DEVICE_HOST`: nothing of the network happens on the GPU.
const DEVICE_HOST: c_int = 0;
/// `NCCL_NET_DEVICE_INVALID_VERSION`.
const DEVICE_VERSION: c_int = 0;

/// A table is read by NCCL only: names, and functions that may be called from any thread.
macro_rules! export {
    ($table:ty) => {
        // SAFETY: a table is never written; it holds addresses of functions and of a constant string.
        unsafe impl Sync for $table {}
    };
}
use export;
