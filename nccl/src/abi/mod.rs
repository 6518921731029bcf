//! The interface to NCCL: the tables `ncclNetPlugin_v6` to `ncclNetPlugin_v12`, and those of its
//! device-side communication, `ncclRmaPlugin_v13`, `ncclRmaPlugin_v14` and `ncclGinPlugin_v13`.
//!
//! Each version's file holds its layouts and its translation of arguments. `calls` holds the common
//! calls in their newest form, and `boundary` converts errors and panics to codes. The layouts
//! restate those of NCCL's `net_vN.h`, `rma_v14.h` and `gin_v13.h`. Tests and `nccl-conformance`
//! compare them with numbers and with a second statement.

mod boundary;
mod calls;
mod properties;
mod rma;
mod tables;
mod virtual_device;

use std::ffi::c_int;

pub use self::rma::*;
pub use self::tables::*;
pub use self::virtual_device::VirtualDevice;
pub use crate::log::Logger;
pub use crate::profiler::{Callback as ProfilerCallback, Description, PLUGIN_ID};
pub use crate::result_code::Code;

/// `ncclNetCommConfig_v10_t`, which v11 and v12 have too.
#[repr(C)]
#[derive(Debug)]
pub struct CommConfig {
    /// `IP_TOS` of the communicator's packets. -1: not set.
    pub traffic_class: c_int,
}
