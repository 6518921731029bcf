//! The layout of extended completion queues, `ibv_cq_ex`.

use std::ffi::c_uint;
use std::{mem, ptr};

use braid_verbs::abi::ibv_wc;

use crate::gate::Gate;

/// The fields of `ibv_cq_ex` behind `ibv_cq`, and the completion that the program reads.
#[repr(C)]
pub(crate) struct CqExtension {
    comp_mask: u32,
    pub(crate) status: c_uint,
    pub(crate) wr_id: u64,
    /// In the order of `ibv_cq_ex`, from `start_poll` to `read_completion_wallclock_ns`.
    pub(crate) functions: [*const (); 18],
    pub(crate) current: ibv_wc,
    /// Held from a `start_poll` that finds a completion until `end_poll`.
    pub(crate) gate: Gate,
}

impl Default for CqExtension {
    fn default() -> Self {
        // SAFETY: the structure consists of numbers, so zero is valid.
        let current = unsafe { mem::zeroed() };
        let (functions, gate) = ([ptr::null(); 18], Gate::default());
        CqExtension { comp_mask: 0, status: 0, wr_id: 0, functions, current, gate }
    }
}
