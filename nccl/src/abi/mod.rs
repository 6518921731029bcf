//! The interface to NCCL: the tables `ncclNetPlugin_v6` to `ncclNetPlugin_v12`.
//!
//! Each version's file holds its layouts and its translation of arguments. `calls` holds the common
//! calls in their newest form, and `boundary` converts errors and panics to codes. The layouts
//! restate NCCL's `net_vN.h`. `tests/layout.rs` and `nccl-conformance` compare them with numbers
//! and with a second statement.

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
    /// -1: not set. Braid sends all traffic in one class.
    pub traffic_class: c_int,
}

/// The plugin's name in every table.
const NAME: *const c_char = c"Braid".as_ptr();

/// `NCCL_NET_DEVICE_HOST`: the GPU does not take part in networking.
const DEVICE_HOST: c_int = 0;
/// `NCCL_NET_DEVICE_INVALID_VERSION`.
const DEVICE_VERSION: c_int = 0;

/// A table that NCCL only reads: names, and functions that any thread may call.
macro_rules! export {
    ($table:ty) => {
        // SAFETY: a table is never written. It holds addresses of functions and of a constant
        // string.
        unsafe impl Sync for $table {}
    };
}
use export;
