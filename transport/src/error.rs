//! Errors that the caller makes, with their remedies.

use crate::{AccessError, QpState};

/// The reason why a work request was rejected. Nothing of it was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The queue pair's state does not allow posting.
    #[error("a {queue} work request cannot be posted to a queue pair in state {state}; {remedy}", remedy = post_remedy(queue))]
    State {
        /// The state.
        state: QpState,
        /// "send" or "receive".
        queue: &'static str,
    },
    /// The queue is full.
    #[error(
        "the {queue} queue already holds {capacity} work requests; poll completions first, or create the queue pair with a larger max_{queue}_wr"
    )]
    QueueFull {
        /// The capacity of the queue.
        capacity: u32,
        /// "send" or "recv".
        queue: &'static str,
    },
    /// The queue pair takes its receives from a shared receive queue.
    #[error(
        "this queue pair takes its receives from a shared receive queue; post the receive there"
    )]
    SharedReceives,
    /// The message is longer than [`crate::MAX_MESSAGE`].
    #[error("a message of {len} bytes is longer than {max} bytes; split it", max = crate::MAX_MESSAGE)]
    TooLong {
        /// Length of the message.
        len: u64,
    },
    /// More inline data than the queue pair's `max_inline`.
    #[error(
        "{len} bytes of inline data are more than the {max} of this queue pair; register the memory, or create the queue pair with a larger max_inline"
    )]
    InlineTooLong {
        /// Length of the inline data.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Out of memory for the inline data of the queue pair, which is allocated with the first such
    /// work request.
    #[error(
        "{bytes} bytes for the inline data of this queue pair cannot be allocated; register the data instead, or create it with a smaller max_send_wr or max_inline"
    )]
    NoInlineMemory {
        /// Bytes for all inline data of the queue pair.
        bytes: usize,
    },
    /// More scatter/gather elements than the queue pair's `max_sge`.
    #[error(
        "{count} scatter/gather elements are more than the {max} of this queue pair; merge them, or create it with a larger max_sge"
    )]
    TooManySges {
        /// Number of elements.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The local memory of an atomic is not one element of 8 bytes.
    #[error("an atomic takes one local element of 8 bytes, not {count} of {len} bytes in all")]
    AtomicLength {
        /// Number of elements.
        count: usize,
        /// Total length of the elements in bytes.
        len: u64,
    },
    /// The remote address of an atomic is not aligned to 8 bytes.
    #[error("the remote address {addr:#x} of an atomic is not a multiple of 8")]
    AtomicAlignment {
        /// The address.
        addr: u64,
    },
    /// The work request may not access its local memory.
    #[error(transparent)]
    Access(#[from] AccessError),
}

fn post_remedy(queue: &str) -> &'static str {
    if queue == "send" { "connect it first (RTS)" } else { "move it to INIT or connect it first" }
}

/// A transition that the state machine does not have (IBTA vol. 1, 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a queue pair cannot go from {from} to {to}; from {from} it can go to {allowed}", allowed = from.successors())]
pub struct StateError {
    /// The present state.
    pub from: QpState,
    /// The requested state.
    pub to: QpState,
}
