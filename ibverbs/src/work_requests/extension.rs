//! The layout of extended queue pairs, `ibv_qp_ex`.

use std::ffi::c_uint;
use std::mem::offset_of;
use std::ptr;

use braid_verbs::abi::ibv_qp_ex;

use super::batch::Batch;
use crate::gate::Gate;

/// The fields of `ibv_qp_ex` behind `ibv_qp`, and the sends that the program describes.
#[repr(C)]
pub(crate) struct QpExtension {
    comp_mask: u64,
    pub(super) wr_id: u64,
    pub(super) wr_flags: c_uint,
    /// In the order of `ibv_qp_ex`, from `wr_atomic_cmp_swp` to `wr_atomic_write`.
    pub(super) functions: [*const (); 21],
    pub(super) gate: Gate,
    pub(super) batch: Batch,
}

const _: () = assert!(
    offset_of!(QpExtension, functions)
        == offset_of!(ibv_qp_ex, wr_atomic_cmp_swp) - offset_of!(ibv_qp_ex, comp_mask)
);

impl QpExtension {
    pub(super) fn new(functions: [*const (); 21]) -> Self {
        let (gate, batch) = (Gate::default(), Batch::default());
        QpExtension { comp_mask: 0, wr_id: 0, wr_flags: 0, functions, gate, batch }
    }

    /// The extension of a queue pair that has only `ibv_post_send`.
    pub(crate) fn none() -> Self {
        Self::new([ptr::null(); 21])
    }
}
