//! The state of the fake device. It belongs to the thread, because C functions have no other access
//! to it.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::queues::Queues;
use crate::Sge;
use crate::abi::*;

/// The kind of `verbs_context` of the device.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Extension {
    /// The full declared length.
    #[default]
    Full,
    /// A length too small for `query_port`.
    Short,
    /// A plain `ibv_context`.
    None,
}

/// A send work request that the driver received.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    pub(crate) opcode: u32,
    pub(crate) flags: u32,
    pub(crate) imm: [u8; 4],
    pub(crate) sges: Vec<Sge>,
    pub(crate) rdma: (u64, u32),
    pub(crate) ud: (*mut ibv_ah, u32, u32),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) extension: Extension,
    pub(super) failing: Option<&'static str>,
    /// Number of work requests that can still be posted.
    pub(super) room: usize,
    pub(super) took: Vec<&'static str>,
    pub(super) alive: Vec<&'static str>,
    pub(super) events: VecDeque<(u32, usize)>,
    pub(super) notifications: VecDeque<*mut ibv_cq>,
    pub(super) completions: VecDeque<u64>,
    pub(super) sent: Vec<Sent>,
    pub(super) modified: Vec<(u32, ibv_qp_attr)>,
    pub(super) queues: Queues,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(super) fn with<R>(use_it: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(use_it)
}
