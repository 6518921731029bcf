//! Completion queues, as programs hold them.

use std::sync::Arc;

use braid_verbs::abi::ibv_cq;

use super::extension::CqExtension;
use super::shared::CompletionQueue;
use crate::acknowledgements::Acknowledgements;
use crate::channel::members::Members;
use crate::errno::Errno;
use crate::registry::Registry;

/// A completion queue, as programs hold it: an `ibv_cq` and an `ibv_cq_ex`.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) base: ibv_cq,
    /// `mutex`, `cond` and two counts of events, which only libibverbs uses.
    pub(super) reserved: [u64; 12],
    pub(crate) extension: CqExtension,
    pub(crate) shared: Arc<CompletionQueue>,
    pub(crate) registry: Arc<Registry>,
    /// The counts of completion events and of asynchronous events.
    pub(crate) acknowledgements: (Acknowledgements, Acknowledgements),
    pub(super) channel: Option<(Arc<Members>, u64)>,
}

impl Cq {
    /// The queue that a program names; null stays null.
    pub(crate) fn of(cq: *mut ibv_cq) -> *mut Cq {
        cq.cast()
    }

    /// The part that a queue pair holds of the queue that a program names.
    pub(crate) unsafe fn shared(cq: *mut ibv_cq) -> Result<Arc<CompletionQueue>, Errno> {
        // SAFETY: by the caller's promise.
        unsafe { Cq::of(cq).as_ref() }.map(|cq| cq.shared.clone()).ok_or(Errno::INVALID)
    }
}
