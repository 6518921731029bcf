//! Queue pairs, as programs hold them.

use std::mem::offset_of;
use std::sync::Arc;

use braid_verbs::abi::{ibv_qp, ibv_qp_ex};

use super::queue_pair::QueuePair;
use crate::acknowledgements::Acknowledgements;
use crate::registry::Registry;
use crate::work_requests::extension::QpExtension;

/// A queue pair, as programs hold it.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) base: ibv_qp,
    /// `mutex`, `cond` and the count of events, which only libibverbs uses.
    pub(super) reserved: [u64; 12],
    /// The rest of an `ibv_qp_ex`.
    pub(crate) extension: QpExtension,
    pub(crate) shared: Arc<QueuePair>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) acknowledgements: Acknowledgements,
}

const _: () = assert!(offset_of!(Qp, extension) == offset_of!(ibv_qp_ex, comp_mask));

impl Qp {
    /// The queue pair that a program names; null stays null.
    pub(crate) fn of(qp: *mut ibv_qp) -> *mut Qp {
        qp.cast()
    }
}
