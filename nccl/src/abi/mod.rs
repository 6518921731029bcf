//! NCCL's side: the tables `ncclNetPlugin_v6` to `ncclNetPlugin_v12`.
//!
//! `tables` lists the members of all versions, `properties` the fields of the structure that
//! describes a device. `calls` has the functions, and `boundary` turns errors and panics into
//! codes. The layouts are those of NCCL's `net_vN.h`, written anew; `tests/layout.rs` and
//! `nccl-conformance` check them against numbers and a second description.

mod boundary;
mod calls;
mod properties;
mod tables;
mod virtual_device;

use std::ffi::{c_char, c_int};

pub use self::tables::*;
pub use self::virtual_device::VirtualDevice;
pub use crate::log::Logger;
pub use crate::profiler::{Callback as ProfilerCallback, Description, PLUGIN_ID};

/// `ncclResult_t`.
pub type Code = c_int;

/// `ncclNetCommConfig_v10_t`, which v11 and v12 have too.
#[repr(C)]
#[derive(Debug)]
pub struct CommConfig {
    /// The wanted class, or -1. Braid sends everything in one class.
    pub traffic_class: c_int,
}

/// The name of the plugin in every table.
const NAME: *const c_char = c"Braid".as_ptr();
